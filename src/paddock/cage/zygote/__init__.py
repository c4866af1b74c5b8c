"""Warm start: a fork of a pre-started Python interpreter becomes the plugin."""
