"""TODO: paddock.host.identity."""
