"""Settings and where they come from, our directories, and what `local.toml` says about each plugin."""
