"""Recommend: which hardware should run this model under my limits."""
