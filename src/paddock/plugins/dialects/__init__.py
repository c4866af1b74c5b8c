"""TODO: paddock.plugins.dialects."""
