"""What goes on beside the requests: watches, training, copies, child processes."""
