"""TODO: paddock.core.events."""
