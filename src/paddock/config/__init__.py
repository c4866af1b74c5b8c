"""Settings and their sources, Paddock's directories, and the plugin entries of `local.toml`."""
