"""The HTTP API: `/api/v1` on the daemon's local socket and over TCP."""
