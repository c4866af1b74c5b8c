"""Install and upgrade requests as a person typed them, and their resolution against what is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import OperatorError
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, merge_capabilities
from paddock.manifest.dialects.credential_patterns import is_secret_name
from paddock.manifest.model import CommandRuntime
from paddock.manifest.names import slug
from paddock.manifest.server_file.server_file import command_arguments
from paddock.plugins.environments.metadata import IndexOptions, index_options_of
from paddock.plugins.package.source import PackageSource, SourceKind, with_ref
from paddock.plugins.store.lookup import manifest_of, pinned_version_missing_error, require_plugin
from paddock.plugins.store.rows import PluginRow, all_plugins, find_version
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.versions import find_recorded_source
from paddock.store.database import Transaction


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
    """Parse a person's options for a registry package or a server file; `plugin` is the name it is installed under, if
    it is.

    Args:
        source: The package source.
        name, program: The plugin's name, and which program of the package it is.
        arguments, capabilities: The program's arguments, and its capabilities.
        variables: `NAME=VALUE`, or `NAME` if each machine keeps its own value.
        plugin: See above.

    Raises:
        OperatorError: the source is another kind of package, whose manifest declares all that; or a variable may be
            a secret.
    """
    if source.kind is SourceKind.SERVER_FILE and program:
        raise OperatorError(
            "only a package of a registry has a choice of programs: a server file is the program",
            code="source.not_a_registry",
        )
    if source.kind.registry or source.kind is SourceKind.SERVER_FILE:
        assignments = [text.partition("=") for text in variables]
        return IndexOptions(
            name,
            program,
            tuple(arguments),
            tuple(capabilities),
            {variable: _check_public_value(variable, value) for variable, equals, value in assignments if equals},
            tuple(variable for variable, equals, _ in assignments if not equals),
        )
    if name or program or arguments or capabilities or variables:
        hint, action = how_to_grant_more(source, plugin)
        raise OperatorError(
            "a name, program, arguments, variables and capabilities are chosen for servers without a manifest only",
            code="source.not_a_registry",
            hint=hint,
            action=action,
        )
    return None


def how_to_grant_more(source: PackageSource, plugin: str) -> tuple[str, Action | None]:
    """Return a hint and an action to grant a plugin more than it requests; `plugin` is empty if it is not installed."""
    if source.kind is SourceKind.CONFIGURATION:
        return "import it with that capability", source.grant_action("CAPABILITY", server=plugin or "NAME")
    if source.without_manifest:
        hint = "a server without a manifest requests nothing to grant: give it the capability itself"
        if plugin:
            return hint, Action.of("plugin.upgrade", plugin=plugin, capabilities=("CAPABILITY",))
        return hint, source.grant_action("CAPABILITY")
    if plugin:
        return "declare it in a new version of the package's own manifest", Action.of("plugin.upgrade", plugin=plugin)
    return "declare it in the package's own manifest", None


def extend_index_options(store: PluginStore, plugin: PluginRow, added: IndexOptions) -> IndexOptions:
    """Return the plugin's installed options extended by these."""
    installed = installed_index_options(store, plugin)
    return replace(
        installed,
        arguments=(*installed.arguments, *added.arguments),
        capabilities=merge_capabilities(installed.capabilities, added.capabilities),
        variables={name: value for name, value in installed.variables.items() if name not in added.prompted_variables}
        | dict(added.variables),
        prompted_variables=tuple(
            dict.fromkeys(
                [
                    *(one for one in installed.prompted_variables if one not in added.variables),
                    *added.prompted_variables,
                ]
            )
        ),
    )


def reuse_index_options(
    store: PluginStore, source: PackageSource, choices: IndexOptions
) -> tuple[PackageSource, IndexOptions]:
    """Merge the options with those of the same package that is installed already: each option that is not given now
    stays as it was."""
    plugin = _find_installed(store, source, choices.name)
    if plugin is None:
        return source, choices
    recorded_source = find_recorded_source(store, plugin)
    installed = installed_index_options(store, plugin)
    variables_given = bool(choices.variables or choices.prompted_variables)
    return replace(source, constraints=source.constraints or recorded_source.constraints), replace(
        installed,
        name=plugin.name if source.kind is SourceKind.SERVER_FILE else choices.name,
        program=choices.program or installed.program,
        arguments=choices.arguments or installed.arguments,
        capabilities=choices.capabilities or installed.capabilities,
        variables=choices.variables if variables_given else installed.variables,
        prompted_variables=choices.prompted_variables if variables_given else installed.prompted_variables,
    )


def _find_installed(store: PluginStore, source: PackageSource, name: str | None) -> PluginRow | None:
    """Find the plugin that this package is installed as: a registry package by its name, a server file by its path,
    since nothing else says what it is called."""
    by_path = source.kind is SourceKind.SERVER_FILE and name is None
    name = name or slug(source.location.partition("[")[0].rpartition("/")[2])

    def unit(tx: Transaction) -> PluginRow | None:
        for plugin in all_plugins(tx):
            row = find_version(tx, plugin.name, plugin.default_version) if by_path or plugin.name == name else None
            recorded = row.source.source if row is not None else None
            if recorded is not None and (recorded.kind, recorded.location) == (source.kind, source.location):
                return plugin
        return None

    return store.database.read(unit)


def installed_index_options(store: PluginStore, plugin: PluginRow) -> IndexOptions:
    """Return the options that the plugin was installed with."""
    row = store.database.read(lambda tx: find_version(tx, plugin.name, plugin.default_version))
    if row is None:
        raise pinned_version_missing_error(plugin)
    manifest = manifest_of(row)
    options = index_options_of(manifest)
    if row.source.source.server_file and isinstance(manifest.runtime, CommandRuntime):
        return replace(options, program=None, arguments=command_arguments(manifest.runtime.command))
    return options


def _check_public_value(variable: str, value: str) -> str:
    """Return the value, which anyone who sees the plugin may see; raise if it may be a secret."""
    if is_secret_name(variable):
        raise OperatorError(
            f"{printable(variable, 80)} may be a secret: values of variables are shown with the plugin",
            code="environment.secret_variable",
            hint="name the variable without a value, then configure the installed plugin",
            action=Action.of("plugin.configure", field=variable),
        )
    return value


class ServerImport(Struct, frozen=True):
    """An MCP server in another program's settings.

    Attributes:
        file: The settings, an absolute path.
        name: The server's name there.
        capabilities: What it is granted beyond what its entry needs.
    """

    file: Path
    name: str
    capabilities: tuple[Capability, ...] = ()


class InstallRequest(Struct, frozen=True):
    """A request to install or upgrade a package.

    Attributes:
        source: The package source; None for the one that the installed version came from, and for a server.
        choices: The options for a registry package.
        upgrade: The name or alias of the plugin that it must be the next version of.
        ref: Another tag, branch or version than the installed one came from.
        downgrade: Whether it may be older than what is installed.
        recorded_as: The source to record, if it is not the one that is read.
        grants: The capabilities that a person means to grant; the package must request each of them.
        server: The server to import, in place of a source.
        as_installed: Whether the plugin to upgrade stays as it is installed, and only its capabilities are added to.
    """

    source: PackageSource | None
    choices: IndexOptions | None = None
    upgrade: str | None = None
    ref: str | None = None
    downgrade: bool = False
    recorded_as: PackageSource | None = None
    grants: tuple[Capability, ...] = ()
    server: ServerImport | None = None
    as_installed: bool = False


class ResolvedRequest(Struct, frozen=True):
    """A request resolved against what is installed."""

    source: PackageSource
    choices: IndexOptions | None
    plugin: PluginRow | None  # the plugin to upgrade


def resolve_request(store: PluginStore, request: InstallRequest) -> ResolvedRequest:
    """Resolve the package source and options; options that were chosen before stay chosen.

    Raises:
        NotFound: the plugin to upgrade is not installed.
        OperatorError: the ref is invalid.
    """
    if request.upgrade is None:
        assert request.source is not None
        if request.choices is None:
            return ResolvedRequest(request.source, None, None)
        return ResolvedRequest(*reuse_index_options(store, request.source, request.choices), None)
    name = request.upgrade
    plugin = store.database.read(lambda tx: require_plugin(tx, name))
    source = request.source or find_recorded_source(store, plugin)
    if request.source is None and request.ref:
        source = with_ref(source, request.ref)
    if not source.kind.registry and source.kind is not SourceKind.SERVER_FILE:
        return ResolvedRequest(source, None, plugin)
    return ResolvedRequest(source, extend_index_options(store, plugin, request.choices or IndexOptions()), plugin)
