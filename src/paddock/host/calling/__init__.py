"""What callers do with a host: actions, approvals, resources, activation and unknown outcomes."""
