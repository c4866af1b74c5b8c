"""What a person may say about a server from a package registry: such a package cannot say it itself."""

from __future__ import annotations

import shlex
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
MoreArguments = Annotated[
    list[str] | None,
    typer.Option("--arg", help="Start a registry's server with this argument too, after those it has."),
]
MoreVariables = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME[=VALUE]", help="Start a registry's server with this variable too."),
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
    plugin: str = "",
) -> Choices | None:
    """What a person says about a registry's server; `plugin` is what it is installed as, where it is.

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
            hint=how_to_give_more(source, plugin),
        )
    return None


def how_to_give_more(source: Source, plugin: str) -> str:
    """The way to give a plugin more than its package asks for; `plugin` is empty where it is not installed."""
    from paddock.plugins.sources import SourceKind

    if source.kind is SourceKind.CONFIGURATION:
        only = plugin or "NAME"
        return f"import it with that: paddock import {shlex.quote(source.location)} --only {only} --capability …"
    if source.kind.registry:
        return "let a registry's server have it with --capability in place of --grant"
    if plugin:
        return (
            "write what you want into the package's own manifest, give it a new version, then: "
            f"paddock plugin upgrade {plugin}"
        )
    return "write what you want into the package's own manifest"


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


def choices_added(
    store: PluginStore,
    plugin: PluginRow,
    source: Source,
    arguments: list[str],
    capabilities: list[str],
    variables: list[str],
) -> Choices | None:
    """What was chosen when the plugin was installed, and this too.

    Raises:
        OperatorError: the source is another kind of package; or a variable may be a key.
    """
    from dataclasses import replace

    from paddock.manifest.capability import joined

    more = choices_made(source, None, None, arguments, capabilities, variables, plugin.name)
    if more is None:
        return None
    kept = choices_kept(store, plugin)
    return replace(
        kept,
        arguments=(*kept.arguments, *more.arguments),
        capabilities=joined(kept.capabilities, more.capabilities),
        variables={name: value for name, value in kept.variables.items() if name not in more.asked_for}
        | dict(more.variables),
        asked_for=tuple(
            dict.fromkeys([*(one for one in kept.asked_for if one not in more.variables), *more.asked_for])
        ),
    )


def installed_before(store: PluginStore, source: Source, choices: Choices) -> tuple[Source, Choices]:
    """What to install where the same package is installed already under the same name: each option that is not given
    now stays as it was.
    """
    from dataclasses import replace

    from paddock.manifest.names import slug
    from paddock.plugins.rows import find_plugin
    from paddock.plugins.versions import recorded_source

    name = choices.name or slug(source.location.partition("[")[0].rpartition("/")[2])
    plugin = store.database.read(lambda tx: find_plugin(tx, name))
    before = recorded_source(store, plugin) if plugin else None
    if plugin is None or before is None or (before.kind, before.location) != (source.kind, source.location):
        return source, choices
    kept = choices_kept(store, plugin)
    named = bool(choices.variables or choices.asked_for)
    return replace(source, constraints=source.constraints or before.constraints), replace(
        kept,
        name=choices.name,
        program=choices.program or kept.program,
        arguments=choices.arguments or kept.arguments,
        capabilities=choices.capabilities or kept.capabilities,
        variables=choices.variables if named else kept.variables,
        asked_for=choices.asked_for if named else kept.asked_for,
    )


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
