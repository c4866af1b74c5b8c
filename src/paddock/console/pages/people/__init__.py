"""TODO: paddock.console.pages.people."""
