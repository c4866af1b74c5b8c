"""Calls with effects: claimed once, settled, recovered, and followed while they are in progress."""
