"""TODO: paddock.web.security."""
