"""Catalogue of the callables, resources and prompts that each tenant can use."""
