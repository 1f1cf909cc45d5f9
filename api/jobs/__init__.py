"""Jobs for other machines: the queue in the log's Postgres, the leases of workers, schedules, and their routes."""
