"""One reader a dialect: each maps a parsed document onto the one model and reports what is wrong with it."""
