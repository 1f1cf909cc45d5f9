"""MLPerf Inference: logs of the load generator and published tables."""
