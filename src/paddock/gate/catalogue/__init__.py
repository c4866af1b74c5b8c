"""TODO: paddock.gate.catalogue."""
