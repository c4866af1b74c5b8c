"""The pages of the console, by subject."""
