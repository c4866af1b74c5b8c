"""The configuration of plugins: declared fields and knobs, their values, and planned changes."""
