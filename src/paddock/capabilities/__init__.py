"""The host services that plugins can request, behind one dispatcher."""
