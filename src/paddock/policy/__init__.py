"""What may happen: rules in Cedar, decisions with their reasons, and people's approvals."""
