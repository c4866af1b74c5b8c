"""TODO: paddock.gate.admission."""
