"""The methodology: nine levels, a creed, and a book that is written question by question."""
