"""Reads a server that is one file, as data: its language, the packages that it needs, and what it calls itself."""
