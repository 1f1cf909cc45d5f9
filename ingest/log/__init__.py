"""The event log in Postgres: append, read, migrate, back up."""
