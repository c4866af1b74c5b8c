"""The audit events, by area; `index` imports them all."""
