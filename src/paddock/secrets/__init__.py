"""Secrets that plugins use: sealed at rest, known by name, each under a data key of its own."""
