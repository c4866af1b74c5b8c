"""TODO: paddock.console.pages."""
