"""Our native protocol on a plugin's stdin and stdout; kaged plugins use it with their own method names."""
