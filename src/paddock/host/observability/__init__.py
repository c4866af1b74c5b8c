"""Health, metrics, spans and logs of a running host."""
