"""What somebody wants to install or upgrade to, as they named it; and from where, with what is known of the plugin."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paddock.core.errors import OperatorError
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, merge_capabilities
from paddock.manifest.dialects.credential_patterns import is_secret_name
from paddock.manifest.names import slug
from paddock.plugins.environments.metadata import IndexOptions, index_options_of
from paddock.plugins.package.source import PackageSource, SourceKind, with_ref
from paddock.plugins.store.lookup import manifest_of, pinned_version_missing_error, require_plugin
from paddock.plugins.store.rows import PluginRow, find_plugin, find_version
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.versions import find_recorded_source


def parse_index_options(
    source: PackageSource,
    *,
    name: str | None = None,
    program: str | None = None,
    arguments: Sequence[str] = (),
    capabilities: Sequence[Capability] = (),
    variables: Sequence[str] = (),
    plugin: str = "",
) -> IndexOptions | None:
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
        return IndexOptions(
            name,
            program,
            tuple(arguments),
            tuple(capabilities),
            {variable: _check_public_value(variable, value) for variable, equals, value in given if equals},
            tuple(variable for variable, equals, _ in given if not equals),
        )
    if name or program or arguments or capabilities or variables:
        raise OperatorError(
            "--name, --program, --arg, --env and --capability are for packages of a registry",
            code="source.not_a_registry",
            hint=grant_more_hint(source, plugin),
        )
    return None


def grant_more_hint(source: PackageSource, plugin: str) -> str:
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


def extend_index_options(store: PluginStore, plugin: PluginRow, more: IndexOptions) -> IndexOptions:
    """What was chosen when the plugin was installed, and this too."""
    kept = installed_index_options(store, plugin)
    return replace(
        kept,
        arguments=(*kept.arguments, *more.arguments),
        capabilities=merge_capabilities(kept.capabilities, more.capabilities),
        variables={name: value for name, value in kept.variables.items() if name not in more.prompted_variables}
        | dict(more.variables),
        prompted_variables=tuple(
            dict.fromkeys(
                [*(one for one in kept.prompted_variables if one not in more.variables), *more.prompted_variables]
            )
        ),
    )


def reuse_index_options(
    store: PluginStore, source: PackageSource, choices: IndexOptions
) -> tuple[PackageSource, IndexOptions]:
    """What to install where the same package is installed already under the same name: each option that is not given
    now stays as it was.
    """
    name = choices.name or slug(source.location.partition("[")[0].rpartition("/")[2])
    plugin = store.database.read(lambda tx: find_plugin(tx, name))
    before = find_recorded_source(store, plugin) if plugin else None
    if plugin is None or before is None or (before.kind, before.location) != (source.kind, source.location):
        return source, choices
    kept = installed_index_options(store, plugin)
    named = bool(choices.variables or choices.prompted_variables)
    return replace(source, constraints=source.constraints or before.constraints), replace(
        kept,
        name=choices.name,
        program=choices.program or kept.program,
        arguments=choices.arguments or kept.arguments,
        capabilities=choices.capabilities or kept.capabilities,
        variables=choices.variables if named else kept.variables,
        prompted_variables=choices.prompted_variables if named else kept.prompted_variables,
    )


def installed_index_options(store: PluginStore, plugin: PluginRow) -> IndexOptions:
    """What was chosen when the plugin was installed."""
    row = store.database.read(lambda tx: find_version(tx, plugin.name, plugin.default_version))
    if row is None:
        raise pinned_version_missing_error(plugin)
    return index_options_of(manifest_of(row))


def _check_public_value(variable: str, value: str) -> str:
    """A value that everybody may see who sees the plugin."""
    if is_secret_name(variable):
        raise OperatorError(
            f"{printable(variable, 80)} may be a key: what --env says is shown to whoever looks at the plugin",
            code="environment.secret_variable",
            hint=f"write --env {variable} without a value, then: paddock plugin configure NAME {variable}",
        )
    return value


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """A package that somebody named.

    Attributes:
        source: Where it is; None for where the installed version came from.
        choices: What they say about a registry's server.
        upgrade: The plugin that it must be the next version of, by name or alias.
        ref: Another tag, branch or version than the installed one came from.
        downgrade: Whether it may be older than what is installed.
        recorded_as: What is kept as its source, where that is not what it is read from.
    """

    source: PackageSource | None
    choices: IndexOptions | None = None
    upgrade: str | None = None
    ref: str | None = None
    downgrade: bool = False
    recorded_as: PackageSource | None = None


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """The same with what is known here."""

    source: PackageSource
    choices: IndexOptions | None
    plugin: PluginRow | None  # which is to be upgraded


def resolve_request(store: PluginStore, wanted: InstallRequest) -> ResolvedRequest:
    """Where to fetch it, and with which choices: what was chosen before stays chosen.

    Raises:
        NotFound: the plugin that is to be upgraded is not installed.
        OperatorError: the ref is none.
    """
    if wanted.upgrade is None:
        assert wanted.source is not None
        if wanted.choices is None:
            return ResolvedRequest(wanted.source, None, None)
        return ResolvedRequest(*reuse_index_options(store, wanted.source, wanted.choices), None)
    name = wanted.upgrade
    plugin = store.database.read(lambda tx: require_plugin(tx, name))
    source = wanted.source or find_recorded_source(store, plugin)
    if wanted.source is None and wanted.ref:
        source = with_ref(source, wanted.ref)
    if not source.kind.registry:
        return ResolvedRequest(source, None, plugin)
    return ResolvedRequest(source, extend_index_options(store, plugin, wanted.choices or IndexOptions()), plugin)
