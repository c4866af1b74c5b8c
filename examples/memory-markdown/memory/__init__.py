"""Memories on disk, and the sentences that become one."""
