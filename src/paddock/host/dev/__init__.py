"""The dev host: runs one plugin straight from its author's folder, and replaces it when the files change."""
