"""A Shu plugin that digests web pages."""
