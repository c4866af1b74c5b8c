"""What a person may say about a server from a package registry: such a package cannot say it itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.plugins.environments.describing import Choices
    from paddock.plugins.plugin_store import PluginStore
    from paddock.plugins.rows import PluginRow
    from paddock.plugins.sources import Source

Name = Annotated[str | None, typer.Option("--name", help="What to call a plugin from a registry.")]
Held = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="PACKAGE", help="Hold down what a Python package brings along, e.g. 'mcp<2'."),
]
Program = Annotated[str | None, typer.Option("--program", help="Which program of a registry's package is the server.")]
Argument = Annotated[
    list[str] | None, typer.Option("--arg", help="Start a registry's server with this argument; repeat it for more.")
]
Variable = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="Start a registry's server with this variable; repeat it for more. Without a value, `plugin configure` "
        "asks for it. config:/ begins a path in the server's own folder, here and in --arg.",
    ),
]
Widening = Annotated[
    list[str] | None,
    typer.Option(
        "--capability",
        metavar="CAPABILITY",
        help="Let a registry's server have this, e.g. net:api.github.com:443; repeat it for more.",
    ),
]


def choices_made(
    source: Source,
    name: str | None,
    program: str | None,
    arguments: list[str],
    capabilities: list[str],
    variables: list[str],
) -> Choices | None:
    """What a person says about a registry's server.

    Raises:
        OperatorError: the source is another kind of package, which says all that itself; or a variable may be a key.
    """
    from paddock.cli.consent import parse_grants
    from paddock.core.errors import OperatorError

    if source.kind.registry:
        from paddock.plugins.environments.describing import Choices

        given = [text.partition("=") for text in variables]
        return Choices(
            name,
            program,
            tuple(arguments),
            tuple(parse_grants(capabilities, "--capability")),
            {variable: _shown_to_all(variable, value) for variable, equals, value in given if equals},
            tuple(variable for variable, equals, _ in given if not equals),
        )
    if name or program or arguments or capabilities or variables:
        raise OperatorError(
            "--name, --program, --arg, --env and --capability are for packages of a registry",
            code="source.not_a_registry",
            hint="write what you want into the package's own manifest",
        )
    return None


def _shown_to_all(variable: str, value: str) -> str:
    """A value that everybody may see who sees the plugin."""
    from paddock.core.errors import OperatorError
    from paddock.manifest.dialects.key_shapes import names_a_key

    if names_a_key(variable):
        raise OperatorError(
            f"{printable(variable, 80)} may be a key: what --env says is shown to whoever looks at the plugin",
            code="environment.secret_variable",
            hint=f"write --env {variable} without a value, then: paddock plugin configure NAME {variable}",
        )
    return value


def choices_kept(store: PluginStore, plugin: PluginRow) -> Choices:
    """What was chosen when the plugin was installed."""
    from paddock.plugins.environments.describing import choices_of
    from paddock.plugins.registry import manifest_of
    from paddock.plugins.rows import find_version
    from paddock.plugins.versions import pinned_version_missing

    row = store.database.read(lambda tx: find_version(tx, plugin.name, plugin.default_version))
    if row is None:
        raise pinned_version_missing(plugin)
    return choices_of(manifest_of(row))
