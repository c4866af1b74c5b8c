"""Builds a host, its gate and its background jobs from their parts."""
