"""The fence: what a plugin's process sees of the machine, what it may use, and how it is started and ended."""
