"""Commands about plugins."""
