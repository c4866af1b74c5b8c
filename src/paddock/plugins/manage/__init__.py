"""Managing installed plugins: enable, disable, repair, remove, details and version history."""
