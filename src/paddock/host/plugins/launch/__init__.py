"""TODO: paddock.host.plugins.launch."""
