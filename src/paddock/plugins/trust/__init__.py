"""Trust in plugins: signing keys, package signatures and trusted keys."""
