"""Who acts and what is called, as the rules see them right now: looked up among people and installed plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from paddock.core.call import Principal
from paddock.core.errors import NotFound
from paddock.manifest.model import CallableSpec, Form, Manifest
from paddock.manifest.names import full_name
from paddock.plugins.definitions.flagging.hints import flags_by_callable
from paddock.plugins.definitions.flagging.surveying import names_of_all, survey_plugin
from paddock.plugins.keys import KeyId
from paddock.plugins.listing import Listed, State, list_plugins
from paddock.plugins.local_copy import local_root
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import manifest_of
from paddock.plugins.rows import VersionRow, current_versions
from paddock.plugins.trust import standing_of, trusted_keys
from paddock.policy.subject import Subject, subject_of
from paddock.policy.target import CallableTarget, callable_target
from paddock.principals.consents import consented_names
from paddock.principals.subjects import KINDS, parse_subject, principal_of
from paddock.store.database import Transaction


def subject_now(tx: Transaction, name: str, tenant: str, now: datetime, *, described: bool = False) -> Subject:
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
    parsed = parse_subject(name, tenant)
    try:
        principal = principal_of(tx, name, tenant, now, interactive=parsed.word == "local")
    except NotFound:
        if not described:
            raise
        principal = Principal(parsed.id, kind=KINDS[parsed.word], tenant=parsed.tenant)
    consents = consented_names(tx, principal.tenant, principal.person)
    may_call = _whitelist(tx, principal.id.partition(":")[2]) if principal.kind == "agent" else ()
    return subject_of(principal, consents=consents, may_call=may_call)


def _whitelist(tx: Transaction, agent: str) -> tuple[str, ...]:
    """What an agent may call, where it is an installed plugin."""
    row = current_versions(tx).get(agent)
    return manifest_of(row).allowed_actions if row else ()


def callable_now(store: PluginStore, name: str, *, described: bool = False) -> CallableTarget | None:
    """The installed callable of that full name; see `InstalledCallables.find`."""
    return installed_callables(store).find(name, described)


def installed_callables(store: PluginStore) -> InstalledCallables:
    """What is installed right now, looked at once."""
    keys = store.database.read(trusted_keys)
    return InstalledCallables(list_plugins(store), {key.key_id: key.label for key in keys}, store)


@dataclass(frozen=True, slots=True)
class InstalledCallables:
    """Installed plugins, for looking up many callables.

    Args:
        listed: The plugins.
        trusted: The labels of trusted keys, by their ids.
        store: Where their words are, which may be odd.
    """

    listed: Sequence[Listed]
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
                spec = CallableSpec(name.removeprefix(f"{plugin}."), Form.TOOL)
            if spec is None and not described:
                offers = ", ".join(list(named)[:10]) or "nothing to call"
                raise NotFound(f"{plugin} has no {name!r}", code="callable.not_found", hint=f"it offers: {offers}")
            if spec is None:
                continue
            standing = standing_of(row, self.trusted, intact=listed.state is not State.MODIFIED)
            flags = self._flags(row, manifest, spec.name)
            return callable_target(manifest, spec, tier=standing.tier, signature=str(standing.state), flags=flags)
        return None

    def _flags(self, row: VersionRow, manifest: Manifest, name: str) -> frozenset[str]:
        """What is odd about the words of a callable, and of its plugin as a whole."""
        store, root = self.store, local_root(self.store, row)
        survey, everybody = store.database.read(
            lambda tx: (
                survey_plugin(tx, store.tenant, manifest, root, accepted=True),
                names_of_all(tx, store.tenant),
            )
        )
        flags = flags_by_callable(replace(survey, everybody=everybody).hints())
        return flags.get("", frozenset[str]()) | flags.get(name, frozenset[str]())
