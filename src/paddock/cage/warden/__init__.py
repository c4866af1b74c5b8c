"""The process that starts, watches and ends every cage, and the daemon's end of the line to it."""
