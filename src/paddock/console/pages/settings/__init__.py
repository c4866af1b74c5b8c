"""TODO: paddock.console.pages.settings."""
