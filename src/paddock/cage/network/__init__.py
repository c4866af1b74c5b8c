"""A cage's own network: what its plugin connects to inside is carried outside by the daemon, as far as granted."""
