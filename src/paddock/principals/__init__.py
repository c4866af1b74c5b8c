"""Principals: tenants, people, groups, API keys, sessions, and the consents of people."""
