"""For those who write plugins: a first folder, a session that follows their changes, and the checks of each kind."""
