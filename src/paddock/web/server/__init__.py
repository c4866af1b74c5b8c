"""TODO: paddock.web.server."""
