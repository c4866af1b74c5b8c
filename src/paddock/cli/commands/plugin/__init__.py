"""TODO: paddock.cli.commands.plugin."""
