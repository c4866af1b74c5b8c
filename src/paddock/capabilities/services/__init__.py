"""TODO: paddock.capabilities.services."""
