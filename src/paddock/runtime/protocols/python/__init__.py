"""Plugins that are Python code: a worker of the SDK imports and calls it, inside the cage."""
