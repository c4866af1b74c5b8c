"""One reader per dialect: each maps a parsed document onto the manifest model and reports what is wrong with it."""
