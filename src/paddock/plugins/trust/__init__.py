"""TODO: paddock.plugins.trust."""
