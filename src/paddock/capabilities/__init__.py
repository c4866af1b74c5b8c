"""What a plugin may ask of the host: one door, and one family of services a file."""
