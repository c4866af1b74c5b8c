"""The egress proxy: relays connections from a cage's own network namespace to the outside, as far as granted."""
