"""Restrictions applied inside the cage: seccomp, Landlock and rlimits, and the init program that applies them."""
