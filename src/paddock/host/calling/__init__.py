"""TODO: paddock.host.calling."""
