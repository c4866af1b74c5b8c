"""JSON Schemas as forms: what a person fills in, and what it comes to."""
