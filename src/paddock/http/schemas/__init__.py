"""What the API takes and gives, as JSON Schemas: one resource a file, gathered in `components.py`."""
