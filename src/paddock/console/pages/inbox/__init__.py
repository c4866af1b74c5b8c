"""The inbox: the list, and the answers that are given from it."""
