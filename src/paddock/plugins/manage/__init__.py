"""TODO: paddock.plugins.manage."""
