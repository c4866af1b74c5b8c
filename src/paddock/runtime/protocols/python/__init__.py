"""Plugins that are Python code: an SDK worker imports and calls it inside the cage."""
