"""Who acts and what is called, as the rules see them right now: looked up among people and installed plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

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
    """Whoever goes by this name, with what they have right now.

    Args:
        tx: Where people, keys and consents are kept.
        name: As in `user:ann`.
        tenant: Whose Ann it is, where the name does not say.
        now: The time.
        described: Whether somebody says what they have, so that nobody has to have that name.

    Raises:
        PaddockError: see `principal_of`.
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
    """What an agent may call, where it is an installed plugin."""
    row = current_versions(tx).get(agent)
    return manifest_of(row).allowed_actions if row else ()


def current_callable(store: PluginStore, name: str, *, described: bool = False) -> CallableTarget | None:
    """The installed callable of that full name; see `InstalledCallables.find`."""
    return installed_callables(store).find(name, described)


def installed_callables(store: PluginStore) -> InstalledCallables:
    """What is installed right now, looked at once."""
    keys = store.database.read(list_trusted_keys)
    return InstalledCallables(list_plugins(store), {key.key_id: key.label for key in keys}, store)


@dataclass(frozen=True, slots=True)
class InstalledCallables:
    """Installed plugins, for looking up many callables.

    Args:
        listed: The plugins.
        trusted: The labels of trusted keys, by their ids.
        store: Where their words are, which may be odd.
    """

    listed: Sequence[InstalledPlugin]
    trusted: Mapping[KeyId, str]
    store: PluginStore

    def find(self, name: str, described: bool) -> CallableTarget | None:
        """The installed callable of that full name; None where no plugin of that name is installed.

        Args:
            name: As in `notes.add`, or a plugin that is one callable.
            described: Whether somebody says what it is, so that its plugin need not have it.

        Raises:
            NotFound: its plugin is installed and has no such callable.
        """
        for listed in self.listed:
            plugin, row = listed.plugin.name, listed.version
            if row is None or not (name == plugin or name.startswith(f"{plugin}.")):
                continue
            manifest = manifest_of(row)
            named = {full_name(plugin, spec.name): spec for spec in manifest.callables}
            spec = named.get(name)
            if spec is None and name == plugin and len(named) == 1:
                (spec,) = named.values()
            if spec is None and name != plugin and not named:  # its server says what it offers
                spec = CallableSpec(name.removeprefix(f"{plugin}."), CallableForm.TOOL)
            if spec is None and not described:
                offers = ", ".join(list(named)[:10]) or "nothing to call"
                raise NotFound(f"{plugin} has no {name!r}", code="callable.not_found", hint=f"it offers: {offers}")
            if spec is None:
                continue
            standing = describe_signer(row, self.trusted, intact=listed.state is not InstalledState.MODIFIED)
            flags = self._flags(row, manifest, spec.name)
            return callable_target(manifest, spec, tier=standing.tier, signature=str(standing.state), flags=flags)
        return None

    def _flags(self, row: VersionRow, manifest: Manifest, name: str) -> frozenset[str]:
        """What is odd about the words of a callable, and of its plugin as a whole."""
        store, root = self.store, ensure_local_files(self.store, row)
        survey, everybody = store.database.read(
            lambda tx: (
                load_scan(tx, store.tenant, manifest, root, accepted=True),
                find_installed_names(tx, store.tenant),
            )
        )
        flags = flags_by_callable(replace(survey, installed_names=everybody).find_all())
        return flags.get("", frozenset[str]()) | flags.get(name, frozenset[str]())
