"""Why a prediction is what it is: physics and what was learned beside it, in milliseconds that add up."""
