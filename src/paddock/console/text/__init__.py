"""TODO: paddock.console.text."""
