"""Plugins of a running host: desired state, reconciliation, installation, configuration and logs."""
