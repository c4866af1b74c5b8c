"""The manifest model, and the readers that map every dialect onto it."""
