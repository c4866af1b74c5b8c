"""Options for a server without a manifest: from a package index, or in one file. Their meaning is in `plugins`."""

from __future__ import annotations

from pathlib import Path

import click

plugin_name_option = click.option("--name", help="The name for a server without a manifest.")
constraint_option = click.option(
    "--with",
    "held",
    multiple=True,
    metavar="PACKAGE",
    help="Constrain a dependency of a Python package, e.g. 'mcp<2'; for a Python file, a package that it needs.",
)
program_option = click.option("--program", help="The program in a registry package that is the server.")
argument_option = click.option(
    "--arg", multiple=True, help="An argument for a server without a manifest; may be repeated."
)
variable_option = click.option(
    "--env",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="An environment variable for a server without a manifest; may be repeated. Without a value, "
    "`paddock plugin configure` asks for it. A path that starts with config:/ is in the server's "
    "own folder, here and in --arg.",
)
more_arguments_option = click.option(
    "--arg", multiple=True, help="An additional argument for a server without a manifest; may be repeated."
)
more_variables_option = click.option(
    "--env",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="An additional environment variable for a server without a manifest; may be repeated.",
)
capability_option = click.option(
    "--capability",
    multiple=True,
    metavar="CAPABILITY",
    help="Grant a capability to a server without a manifest, e.g. net:api.github.com:443; may be repeated.",
)
save_option = click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="For a server in one file: write the proposed package into this new folder, and install nothing.",
)
