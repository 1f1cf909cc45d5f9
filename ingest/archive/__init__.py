"""The parts of the archive: its files, and what the database knows of them."""
