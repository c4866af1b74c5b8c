"""Services for callers of a host: actions, approvals, resources, activation and unknown outcomes."""
