"""Identity services of a running host: people, API keys, credentials, console sessions and OIDC."""
