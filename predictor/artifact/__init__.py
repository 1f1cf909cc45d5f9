"""What is kept of a training: trees, card, calibrations, intervals."""
