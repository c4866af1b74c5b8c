"""TODO: paddock.manifest.syntax."""
