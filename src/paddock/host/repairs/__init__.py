"""Repairs: problems detected from facts, with actions to fix them and a list of ignored ones."""
