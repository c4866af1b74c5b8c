"""TODO: paddock.host.secrets."""
