"""The commands, one module per family. Modules import what they need inside the commands, to start quickly."""
