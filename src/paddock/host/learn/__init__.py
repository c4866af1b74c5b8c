"""Tries plugins in learning cages, and proposes the grants that they need."""
