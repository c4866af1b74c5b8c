"""What each tenant can call and read."""
