"""TODO: paddock.console.pages.plugins."""
