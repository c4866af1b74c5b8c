"""Terminal output and prompts of commands."""
