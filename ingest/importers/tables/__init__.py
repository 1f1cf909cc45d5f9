"""Tables with a mapping, price lists, and runs of MLflow."""
