"""Plugins on disk: how a package comes in, what is remembered of it, and whether it is still the same."""
