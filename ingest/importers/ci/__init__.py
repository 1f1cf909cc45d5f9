"""Benchmark and test reports that CI systems keep."""
