"""Anchors: the last checkpoints of all chains, sent to places outside this machine."""
