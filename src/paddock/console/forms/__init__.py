"""Forms generated from JSON Schemas: controls, field views and parsing of submitted values."""
