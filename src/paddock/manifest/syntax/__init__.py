"""Parsers of untrusted manifest files, with size limits and line numbers."""
