"""TODO: paddock.host.plugins.logs."""
