"""Plugin packages: sources, validation rules, staging, trees, digests and blobs."""
