"""Settings pages: own account, API keys, secrets, connected accounts and the host."""
