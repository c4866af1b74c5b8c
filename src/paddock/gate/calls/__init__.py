"""Calls that can be followed, awaited, cancelled, and resumed after an approval."""
