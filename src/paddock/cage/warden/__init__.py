"""The warden: the process that starts, watches and ends every cage, and the daemon's connection to it."""
