"""Routes about plugins: installing, enabling, configuring, upgrading and removing them, and what they offer."""
