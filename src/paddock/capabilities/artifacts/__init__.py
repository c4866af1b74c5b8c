"""The artifacts service: bytes too big for a message, stored under their hash."""
