"""TODO: paddock.console.pages.approvals."""
