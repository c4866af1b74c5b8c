"""Artifacts: bytes that are too big for a message, kept under the hash of what they are. One concept a file."""
