"""Platforms: one contract, one small module for each runtime, found by name through entry points."""
