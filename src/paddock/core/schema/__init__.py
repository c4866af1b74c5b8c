"""JSON Schema: checks untrusted schemas, compiles them, and describes violations for people."""
