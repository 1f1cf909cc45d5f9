"""Which measurements to make next: the runs that lower the error of open questions most for the time they take."""
