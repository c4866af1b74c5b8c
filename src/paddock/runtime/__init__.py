"""Plugin processes: supervision, lifecycle, restarts, and the calls that reach them."""
