"""TODO: paddock.web.routing."""
