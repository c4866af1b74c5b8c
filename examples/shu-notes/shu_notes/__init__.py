"""A Shu plugin that keeps notes."""
