"""Artifact transfers over two pipes beside a plugin process's message stream."""
