"""Who may act: tenants, people, groups, keys, and what people consented to."""
