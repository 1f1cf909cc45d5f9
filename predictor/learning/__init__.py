"""From measurements to a predictor: rows, features, priors, trees, calibration, intervals, evaluation, artifacts."""
