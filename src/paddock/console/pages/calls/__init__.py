"""Pages of calls: one page per call, and the list of all."""
