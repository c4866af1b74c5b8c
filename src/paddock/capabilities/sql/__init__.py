"""The storage service: one guarded SQLite file for each plugin and tenant. See docs/design for why."""
