"""Tools are declared once, by the types and docstrings of the program; the manifest repeats them for the host."""
