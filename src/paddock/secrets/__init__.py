"""Secrets for plugins: envelope-encrypted at rest, looked up by name, with rotatable wrapping keys."""
