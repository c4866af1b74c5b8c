"""__NAME__: a Kernel operator."""
