"""Decides a hypothetical call: of an installed or only described callable, by any principal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.errors import OperatorError, PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.host.policy.entities import current_callable, current_principal
from paddock.plugins.store.store import PluginStore
from paddock.policy.cases import hypothetical_principal
from paddock.policy.engine import Policy
from paddock.policy.explain import Explanation, explain
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import CallEnvironment, build_call_request
from paddock.policy.schema import Vocabulary
from paddock.policy.target import CallableTarget

ROLE_PREFIX: Final = "role:"  # `role:guest` is a principal with that role and nothing else

ServedLookup = Callable[[str], CallableTarget | None]
"""Returns the served callable of a full name, or None."""


class HypotheticalCall(Struct, frozen=True):
    """A hypothetical call.

    Attributes:
        who: As in `user:ann`, or `role:guest` for a principal with that role alone.
        what: As in `notes.add`; it need not be installed.
        roles, groups: Additional ones of the principal.
        effects, tags, flags, kind: Replace those that the callable declares.
        consented: As if the principal had consented to it.
        allowlisted: As if it were on the agent's allowlist.
        background: As if nobody waited for it.
    """

    who: str
    what: str
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    kind: str = ""
    consented: bool = False
    allowlisted: bool = False
    background: bool = False


class HypotheticalDecision(Struct, frozen=True):
    """The decision about a hypothetical call, with the principal and the target that were evaluated."""

    explanation: Explanation
    subject: PolicyPrincipal
    target: CallableTarget
    installed: bool


def serve_nothing(name: str) -> None:
    """A `ServedLookup` that considers installed plugins alone."""
    del name


def decide_hypothetical(
    store: PluginStore, policy: Policy, call: HypotheticalCall, now: datetime, served: ServedLookup = serve_nothing
) -> HypotheticalDecision:
    """Decide a hypothetical call. Nothing is called or recorded.

    Args:
        store: The plugin store and database of one tenant.
        policy: The rules.
        call: The hypothetical call.
        now: The time.
        served: Returns a served callable; None falls back to the installed one.

    Raises:
        OperatorError: a word is in no vocabulary, or a name is no principal's.
        NotFound: no such principal, or the plugin has no such callable.
        Denied: the principal may no longer act.
    """
    described = bool(call.roles or call.groups) or call.who.startswith(ROLE_PREFIX)
    principal = _hypothetical_principal(store, call, now, described=described)
    found = served(call.what) or current_callable(store, call.what, described=bool(call.effects))
    target = found or CallableTarget(call.what, call.what.rpartition(".")[0] or call.what)
    target = _apply_description(target, policy.rules.vocabulary, call)
    principal = replace(
        principal,
        roles=principal.roles.union(call.roles),
        groups=principal.groups.union(call.groups),
        consents=principal.consents.union([target.name] if call.consented else []),
        may_call=principal.may_call.union([target.name] if call.allowlisted else []),
    )
    request = build_call_request(principal, target, CallEnvironment(background=call.background))
    return HypotheticalDecision(explain(policy, request, described=described), principal, target, found is not None)


def catalogue_lookup(find: Callable[[str], Any]) -> ServedLookup:
    """Adapt a catalogue's `find`, which raises if there is nothing, for `decide_hypothetical`."""

    def lookup(name: str) -> CallableTarget | None:
        try:
            return find(name).policy_resource
        except PaddockError:
            return None

    return lookup


def _hypothetical_principal(
    store: PluginStore, call: HypotheticalCall, now: datetime, *, described: bool
) -> PolicyPrincipal:
    if call.who.startswith(ROLE_PREFIX):
        role = call.who.removeprefix(ROLE_PREFIX)
        return hypothetical_principal({"id": "somebody", "roles": [role], "tenant": store.tenant})
    tenant: Tenant = store.tenant
    return store.database.read(lambda tx: current_principal(tx, call.who, tenant, now, described=described))


def _apply_description(target: CallableTarget, vocabulary: Vocabulary, call: HypotheticalCall) -> CallableTarget:
    """Replace what the hypothetical call describes of the target."""
    if call.effects:
        allowed = vocabulary.words["Effect"]
        target = replace(
            target, effects=frozenset(_require_known("effect", effect, allowed) for effect in call.effects)
        )
    if call.flags:
        allowed = vocabulary.words["Flag"]
        target = replace(target, flags=frozenset(_require_known("flag", flag, allowed) for flag in call.flags))
    traits: dict[str, Any] = {}
    if call.tags:
        traits["tags"] = frozenset(_require_known("tag", tag, vocabulary.tags) for tag in call.tags)
    if call.kind:
        traits["kind"] = _require_known("kind", call.kind, vocabulary.words["Kind"])
    return replace(target, traits=replace(target.traits, **traits)) if traits else target


def _require_known(kind: str, word: str, allowed: tuple[str, ...]) -> str:
    if word not in allowed:
        close = get_close_matches(word, allowed, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(allowed)}"
        raise OperatorError(f"there is no {kind} {printable(word, 80)!r}", code="policy.no_word", hint=hint)
    return word
