"""Effects that happen once: their life, their records, and what is done about those whose outcome is not known."""
