"""TODO: paddock.demo."""
