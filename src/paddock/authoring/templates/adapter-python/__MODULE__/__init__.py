"""__NAME__: a Kernel adapter."""
