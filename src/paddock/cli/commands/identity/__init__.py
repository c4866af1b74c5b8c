"""Commands about tenants, people, groups, API keys, consents and console logins."""
