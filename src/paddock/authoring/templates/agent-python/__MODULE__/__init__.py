"""__NAME__: a Kernel agent."""
