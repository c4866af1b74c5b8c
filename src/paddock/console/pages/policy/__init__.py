"""TODO: paddock.console.pages.policy."""
