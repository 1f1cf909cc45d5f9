"""The HTTP API: routes over the log, the tables and the predictor; problem details for everything refused."""
