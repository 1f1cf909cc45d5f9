"""How right the predictor is in use: predictions given out and scored, drift, and a newcomer beside the one in force."""
