"""One plugin straight from its author's folder: run, called, tried step by step, and replaced when it changes."""
