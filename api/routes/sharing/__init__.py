"""Shared measurements over HTTP: bundles, signers, and rows that are held back."""
