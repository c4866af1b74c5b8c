"""TODO: paddock.gate.idempotency."""
