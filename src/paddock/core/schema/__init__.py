"""TODO: paddock.core.schema."""
