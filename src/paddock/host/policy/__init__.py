"""TODO: paddock.host.policy."""
