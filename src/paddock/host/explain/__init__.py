"""Explanations of recorded decisions."""
