"""TODO: paddock.net."""
