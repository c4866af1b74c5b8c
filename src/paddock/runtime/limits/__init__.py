"""Limits of concurrent calls and of process starts."""
