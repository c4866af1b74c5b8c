"""Plugins on disk: packages, installation, trust, versions, environments and tool definitions."""
