"""From tables to answers: features, training, evaluation, calibration, recommendation. Never imports torch."""
