"""The inbox: everything that needs a person, from several sources, in one list."""
