"""Options for a server from a package index. Their meaning is defined in `plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from paddock.plugins.environments.metadata import IndexOptions
    from paddock.plugins.package.source import PackageSource

PluginNameOption = Annotated[str | None, typer.Option("--name", help="What to call a plugin from a registry.")]
ConstraintOption = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="PACKAGE", help="Hold down what a Python package brings along, e.g. 'mcp<2'."),
]
ProgramOption = Annotated[
    str | None, typer.Option("--program", help="Which program of a registry's package is the server.")
]
ArgumentOption = Annotated[
    list[str] | None, typer.Option("--arg", help="Start a registry's server with this argument; repeat it for more.")
]
VariableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="Start a registry's server with this variable; repeat it for more. Without a value, `plugin configure` "
        "asks for it. config:/ begins a path in the server's own folder, here and in --arg.",
    ),
]
MoreArgumentsOption = Annotated[
    list[str] | None,
    typer.Option("--arg", help="Start a registry's server with this argument too, after those it has."),
]
MoreVariablesOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME[=VALUE]", help="Start a registry's server with this variable too."),
]
CapabilityOption = Annotated[
    list[str] | None,
    typer.Option(
        "--capability",
        metavar="CAPABILITY",
        help="Let a registry's server have this, e.g. net:api.github.com:443; repeat it for more.",
    ),
]


def read_index_options(
    source: PackageSource,
    arguments: list[str] | None,
    capabilities: list[str] | None,
    variables: list[str] | None,
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
        arguments=arguments or [],
        capabilities=parse_grants(capabilities or [], "--capability"),
        variables=variables or [],
        plugin=plugin,
    )
