"""What Paddock remembers: rows in SQLite or PostgreSQL, and blobs named by their content."""
