"""TODO: paddock.daemon."""
