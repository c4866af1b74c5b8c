"""Policy entities as they are right now: principals from the database, callables from installed plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.call import Principal
from paddock.core.errors import NotFound
from paddock.manifest.model import CallableForm, CallableSpec, Manifest
from paddock.manifest.names import full_name
from paddock.plugins.store.listing import InstalledPlugin, InstalledState, list_plugins
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import VersionRow, current_versions
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.scan.findings import flags_by_callable
from paddock.plugins.tool_pinning.scan.scan import find_installed_names, load_scan
from paddock.plugins.trust.signing_keys import KeyId
from paddock.plugins.trust.trusted_keys import describe_signer, list_trusted_keys
from paddock.policy.principal import PolicyPrincipal, to_policy_principal
from paddock.policy.target import CallableTarget, callable_target
from paddock.principals.consents import consented_names
from paddock.principals.principal_name import PRINCIPAL_KINDS, parse_principal_name, resolve_principal
from paddock.store.database import Transaction


def current_principal(
    tx: Transaction, name: str, tenant: str, now: datetime, *, described: bool = False
) -> PolicyPrincipal:
    """Look up a principal by name, with its current roles, groups, consents and allowlist.

    Args:
        tx: Reads people, keys and consents.
        name: As in `user:ann`.
        tenant: The tenant, where the name does not say.
        now: The time.
        described: Whether the caller describes the principal, so that none of that name has to exist.

    Raises:
        PaddockError: see `resolve_principal`.
    """
    parsed = parse_principal_name(name, tenant)
    try:
        principal = resolve_principal(tx, name, tenant, now, interactive=parsed.prefix == "local")
    except NotFound:
        if not described:
            raise
        principal = Principal(parsed.id, kind=PRINCIPAL_KINDS[parsed.prefix], tenant=parsed.tenant)
    consents = consented_names(tx, principal.tenant, principal.person)
    may_call = _agent_allowlist(tx, principal.id.partition(":")[2]) if principal.kind == "agent" else ()
    return to_policy_principal(principal, consents=consents, may_call=may_call)


def _agent_allowlist(tx: Transaction, agent: str) -> tuple[str, ...]:
    """Return the allowlist of an agent, if it is an installed plugin."""
    row = current_versions(tx).get(agent)
    return manifest_of(row).allowed_actions if row else ()


def current_callable(store: PluginStore, name: str, *, described: bool = False) -> CallableTarget | None:
    """Find an installed callable by full name; see `InstalledCallables.find`."""
    return installed_callables(store).find(name, described)


def installed_callables(store: PluginStore) -> InstalledCallables:
    """Take a snapshot of the installed plugins."""
    keys = store.database.read(list_trusted_keys)
    return InstalledCallables(list_plugins(store), {key.key_id: key.label for key in keys}, store)


class InstalledCallables(Struct, frozen=True):
    """Installed plugins, to look up many callables.

    Args:
        listed: The plugins.
        trusted: The labels of trusted keys, by key id.
        store: The plugin store, for scanning their texts.
    """

    listed: Sequence[InstalledPlugin]
    trusted: Mapping[KeyId, str]
    store: PluginStore

    def find(self, name: str, described: bool) -> CallableTarget | None:
        """Find an installed callable by full name; None if no plugin of that name is installed.

        Args:
            name: As in `notes.add`, or the name of a plugin with one callable.
            described: Whether the caller describes the callable, so that the plugin need not have it.

        Raises:
            NotFound: the plugin is installed and has no such callable.
        """
        for installed in self.listed:
            plugin, row = installed.plugin.name, installed.version
            if row is None or not (name == plugin or name.startswith(f"{plugin}.")):
                continue
            manifest = manifest_of(row)
            specs_by_name = {full_name(plugin, spec.name): spec for spec in manifest.callables}
            spec = specs_by_name.get(name)
            if spec is None and name == plugin and len(specs_by_name) == 1:
                (spec,) = specs_by_name.values()
            if spec is None and name != plugin and not specs_by_name:  # its server lists its tools
                spec = CallableSpec(name.removeprefix(f"{plugin}."), CallableForm.TOOL)
            if spec is None and not described:
                offers = ", ".join(list(specs_by_name)[:10]) or "nothing to call"
                raise NotFound(f"{plugin} has no {name!r}", code="callable.not_found", hint=f"it offers: {offers}")
            if spec is None:
                continue
            signer = describe_signer(row, self.trusted, intact=installed.state is not InstalledState.MODIFIED)
            flags = self._flags(row, manifest, spec.name)
            return callable_target(manifest, spec, tier=signer.tier, signature=str(signer.state), flags=flags)
        return None

    def _flags(self, row: VersionRow, manifest: Manifest, name: str) -> frozenset[str]:
        """Return the scan flags of a callable's texts, and of its plugin as a whole."""
        store, root = self.store, ensure_local_files(self.store, row)
        scan, names = store.database.read(
            lambda tx: (
                load_scan(tx, store.tenant, manifest, root, accepted=True),
                find_installed_names(tx, store.tenant),
            )
        )
        flags = flags_by_callable(replace(scan, installed_names=names).find_all())
        return flags.get("", frozenset[str]()) | flags.get(name, frozenset[str]())
