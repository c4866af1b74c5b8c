"""Policy: rules in Cedar, decisions with their reasons, and explanations."""
