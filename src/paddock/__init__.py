"""Paddock: a plugin host for AI agents.

Importing this package costs nothing: each name below is loaded on first use.
"""

__version__ = "0.1.0"
