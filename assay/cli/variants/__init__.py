"""Verbs about variants of models: made smaller, measured, and judged by what that costs in quality."""
