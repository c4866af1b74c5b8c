"""TODO: paddock.plugins.install."""
