"""Our own protocol on a plugin's stdin and stdout; kaged plugins speak it under their own names."""
