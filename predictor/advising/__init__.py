"""What would make a configuration faster: one change at a time, its predicted gain, and the command that checks it."""
