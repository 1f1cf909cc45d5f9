"""Language models being served or generating: time to the first token, time per token, tokens a second."""
