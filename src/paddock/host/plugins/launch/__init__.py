"""Preparation of a plugin's start: command, configuration and cage."""
