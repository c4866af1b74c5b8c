"""Tools for plugin authors: scaffolding, the development session, and contract checks."""
