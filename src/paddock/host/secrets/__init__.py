"""Secrets of a running host: keys, values, usage and requirements."""
