"""A Kernel agent that plans funding outreach."""
