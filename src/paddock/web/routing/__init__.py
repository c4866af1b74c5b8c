"""Routes, request validation, errors and the OpenAPI document."""
