"""Observes what a plugin tries in a learning cage: the system calls that name files, programs and addresses."""
