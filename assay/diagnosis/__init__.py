"""What `assay doctor` looks at: this machine, the log in Postgres, and the tables of the service."""
