"""__NAME__: a Kernel tool."""
