"""Accelerators beside the runtime that drives them: their state by the vendor's own library, and who may measure on them."""
