"""Pages of plugins: list, details, installation, configuration, knobs, versions, logs and tool runs."""
