"""What routes read from the tables, as rows."""
