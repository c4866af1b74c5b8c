"""Options for a server from a package index. Their meaning is defined in `plugins`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from paddock.plugins.environments.metadata import IndexOptions
    from paddock.plugins.package.source import PackageSource

plugin_name_option = click.option("--name", help="What to call a plugin from a registry.")
constraint_option = click.option(
    "--with",
    "held",
    multiple=True,
    metavar="PACKAGE",
    help="Hold down what a Python package brings along, e.g. 'mcp<2'.",
)
program_option = click.option("--program", help="Which program of a registry's package is the server.")
argument_option = click.option(
    "--arg", multiple=True, help="Start a registry's server with this argument; repeat it for more."
)
variable_option = click.option(
    "--env",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Start a registry's server with this variable; repeat it for more. Without a value, `plugin configure` "
    "asks for it. config:/ begins a path in the server's own folder, here and in --arg.",
)
more_arguments_option = click.option(
    "--arg", multiple=True, help="Start a registry's server with this argument too, after those it has."
)
more_variables_option = click.option(
    "--env", multiple=True, metavar="NAME[=VALUE]", help="Start a registry's server with this variable too."
)
capability_option = click.option(
    "--capability",
    multiple=True,
    metavar="CAPABILITY",
    help="Let a registry's server have this, e.g. net:api.github.com:443; repeat it for more.",
)


def read_index_options(
    source: PackageSource,
    arguments: Sequence[str],
    capabilities: Sequence[str],
    variables: Sequence[str],
    *,
    name: str | None = None,
    program: str | None = None,
    plugin: str = "",
) -> IndexOptions | None:
    """Parse the typed options. See `plugins.install.request.parse_index_options`."""
    from paddock.cli.output.consent_prompt import parse_grants
    from paddock.plugins.install.request import parse_index_options

    return parse_index_options(
        source,
        name=name,
        program=program,
        arguments=arguments,
        capabilities=parse_grants(capabilities, "--capability"),
        variables=variables,
        plugin=plugin,
    )
