"""The gate that every call to a plugin goes through."""
