"""The policy of a running host: loading it, reading it, and trying hypothetical calls."""
