"""TODO: paddock.console.pages.home."""
