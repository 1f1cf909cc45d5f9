"""Tables made anew by many processes: ranges of the log folded apart, and merged into what one fold gives."""
