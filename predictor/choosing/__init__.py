"""How good decisions are: rules that choose a deployment, baselines beside them, and the scores of both."""

from predictor.choosing.chance import chance_below, chance_of_all
from predictor.choosing.scores import Outcome, scores

__all__ = ["Outcome", "chance_below", "chance_of_all", "scores"]
