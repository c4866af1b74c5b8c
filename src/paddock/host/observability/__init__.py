"""TODO: paddock.host.observability."""
