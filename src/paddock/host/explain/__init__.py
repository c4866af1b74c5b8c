"""TODO: paddock.host.explain."""
