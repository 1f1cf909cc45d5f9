"""What comes from others: bundles as imported rows, whom to trust, what is held back, and pages of peers."""
