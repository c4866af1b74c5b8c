"""TODO: paddock.host.plugins."""
