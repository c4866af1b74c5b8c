"""Signing in with an identity provider (OpenID Connect), and taking its tokens."""
