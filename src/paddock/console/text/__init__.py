"""Texts for people: calls, plugins, principals, rules and installations in words."""
