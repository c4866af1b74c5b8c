"""Backup and restore of a whole home."""
