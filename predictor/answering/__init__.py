"""From a question to an answer: candidates, estimates, evidence, order and reasons."""
