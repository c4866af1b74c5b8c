"""TODO: paddock.plugins.package."""
