"""The daemon process: application, signals, logging."""
