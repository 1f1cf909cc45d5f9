"""Test files of models, written from what the log has, and their run with a report."""
