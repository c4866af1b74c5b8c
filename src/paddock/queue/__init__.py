"""Timed and durable work: what is to be done and when, who is there to do it, and who is doing it now."""
