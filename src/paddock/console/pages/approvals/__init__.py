"""Pages for approvals and unknown outcomes."""
