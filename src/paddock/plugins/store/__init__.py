"""TODO: paddock.plugins.store."""
