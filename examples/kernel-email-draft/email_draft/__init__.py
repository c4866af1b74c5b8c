"""A Kernel operator that drafts outreach emails."""
