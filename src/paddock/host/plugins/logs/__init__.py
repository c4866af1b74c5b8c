"""Logs of plugins: files, lines and followers."""
