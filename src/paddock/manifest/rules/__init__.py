"""TODO: paddock.manifest.rules."""
