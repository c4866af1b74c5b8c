"""The http service: outbound web requests that the host makes for plugins."""
