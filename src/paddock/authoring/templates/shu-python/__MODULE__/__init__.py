"""__NAME__: a Shu plugin."""
