"""Scans the texts of a plugin for suspicious content, as hints for people and for policy.

Models act on what they read in a definition. So texts are scanned for what has been found in poisoned ones:
instructions to a model, hidden text, names that imitate others. All of it is pure, and all findings are hints: an
attacker who knows the patterns can avoid them, and an honest author may match one.
"""
