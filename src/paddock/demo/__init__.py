"""`paddock demo`: a host in a temporary home with example plugins, history and a simulated user."""
