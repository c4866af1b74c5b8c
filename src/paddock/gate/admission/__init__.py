"""Rate limits, quotas and fair turns between tenants."""
