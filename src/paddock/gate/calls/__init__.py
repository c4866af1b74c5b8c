"""TODO: paddock.gate.calls."""
