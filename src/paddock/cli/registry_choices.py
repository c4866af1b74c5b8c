"""What a person may say about a server from a package registry: such a package cannot say it itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

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
Widening = Annotated[
    list[str] | None,
    typer.Option(
        "--capability",
        metavar="CAPABILITY",
        help="Let a registry's server have this, e.g. net:api.github.com:443; repeat it for more.",
    ),
]


def choices_made(
    source: Source, name: str | None, program: str | None, arguments: list[str], capabilities: list[str]
) -> Choices | None:
    """What a person says about a registry's server.

    Raises:
        OperatorError: the source is another kind of package, which says all that itself.
    """
    from paddock.cli.consent import parse_grants
    from paddock.core.errors import OperatorError

    if source.kind.registry:
        from paddock.plugins.environments.describing import Choices

        return Choices(name, program, tuple(arguments), tuple(parse_grants(capabilities, "--capability")))
    if name or program or arguments or capabilities:
        raise OperatorError(
            "--name, --program, --arg and --capability are for packages of a registry",
            code="source.not_a_registry",
            hint="write what you want into the package's own manifest",
        )
    return None


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
