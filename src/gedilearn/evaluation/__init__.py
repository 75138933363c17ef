"""Arrays in, numbers out: nothing here trains."""
