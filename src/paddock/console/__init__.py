"""The web console: HTML pages for people."""
