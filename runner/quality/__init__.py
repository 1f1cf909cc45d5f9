"""What a variant costs in quality: the user's evaluation of both, example by example."""
