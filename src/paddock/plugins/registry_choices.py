"""What a person says about a server from a package registry: such a package cannot say it itself.

What they said is kept with the plugin, and counts again for its next version.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from paddock.core.errors import OperatorError
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, joined
from paddock.manifest.dialects.key_shapes import names_a_key
from paddock.manifest.names import slug
from paddock.plugins.environments.describing import Choices, choices_of
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import manifest_of, pinned_version_missing
from paddock.plugins.rows import PluginRow, find_plugin, find_version
from paddock.plugins.sources import Source, SourceKind
from paddock.plugins.versions import recorded_source


def choices_made(
    source: Source,
    *,
    name: str | None = None,
    program: str | None = None,
    arguments: Sequence[str] = (),
    capabilities: Sequence[Capability] = (),
    variables: Sequence[str] = (),
    plugin: str = "",
) -> Choices | None:
    """What a person says about a registry's server; `plugin` is what it is installed as, where it is.

    Args:
        source: Where it is.
        name, program: What to call it, and which program of the package it is.
        arguments, capabilities: What it is started with, and what it may reach.
        variables: `NAME=VALUE`, or `NAME` where each machine keeps the value for itself.
        plugin: See above.

    Raises:
        OperatorError: the source is another kind of package, which says all that itself; or a variable may be a key.
    """
    if source.kind.registry:
        given = [text.partition("=") for text in variables]
        return Choices(
            name,
            program,
            tuple(arguments),
            tuple(capabilities),
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


def choices_added(store: PluginStore, plugin: PluginRow, more: Choices) -> Choices:
    """What was chosen when the plugin was installed, and this too."""
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
    row = store.database.read(lambda tx: find_version(tx, plugin.name, plugin.default_version))
    if row is None:
        raise pinned_version_missing(plugin)
    return choices_of(manifest_of(row))


def _shown_to_all(variable: str, value: str) -> str:
    """A value that everybody may see who sees the plugin."""
    if names_a_key(variable):
        raise OperatorError(
            f"{printable(variable, 80)} may be a key: what --env says is shown to whoever looks at the plugin",
            code="environment.secret_variable",
            hint=f"write --env {variable} without a value, then: paddock plugin configure NAME {variable}",
        )
    return value
