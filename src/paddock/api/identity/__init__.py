"""Routes about tenants, people, groups, API keys and sign-ins."""
