"""Turns what was observed in a learning cage into the smallest grants that would have let it through. Pure."""
