"""Services for callers of a host: actions, approvals, activation and unknown outcomes."""
