"""TODO: paddock.host.wiring."""
