"""What the rules would say to a call that nobody makes: of something installed or only described, by anybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final

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

ROLE_PREFIX: Final = "role:"  # before a role: somebody who has it and nothing else

ServedLookup = Callable[[str], CallableTarget | None]
"""The callable of a full name that is served right now, or None."""


@dataclass(frozen=True, slots=True)
class HypotheticalCall:
    """A call that nobody makes.

    Attributes:
        who: As in `user:ann`, or `role:guest` for somebody who has that role alone.
        what: As in `notes.add`; it need not be installed.
        roles, groups: What they have besides.
        effects, tags, flags, kind: What it has instead of what it declares.
        consented: As if they had consented to it.
        whitelisted: As if it were on the agent's whitelist.
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
    whitelisted: bool = False
    background: bool = False


@dataclass(frozen=True, slots=True)
class HypotheticalDecision:
    """What the rules would say, and whom and what they were asked about."""

    explanation: Explanation
    subject: PolicyPrincipal
    target: CallableTarget
    installed: bool


def serve_nothing(name: str) -> None:
    """For whoever looks at what is installed alone."""
    del name


def decide_hypothetical(
    store: PluginStore, policy: Policy, supposed: HypotheticalCall, now: datetime, served: ServedLookup = serve_nothing
) -> HypotheticalDecision:
    """Ask the rules. Nothing is called, and nothing recorded.

    Args:
        store: People and plugins, as one tenant has them.
        policy: The rules.
        supposed: The call.
        now: The time.
        served: What is served right now; the installed one is taken where it gives none.

    Raises:
        OperatorError: a word that is in no list, or a name that is nobody's.
        NotFound: nobody has that name, or the plugin has no such callable.
        Denied: they may not act any more.
    """
    described = bool(supposed.roles or supposed.groups) or supposed.who.startswith(ROLE_PREFIX)
    subject = _hypothetical_principal(store, supposed, now, described=described)
    found = served(supposed.what) or current_callable(store, supposed.what, described=bool(supposed.effects))
    target = found or CallableTarget(supposed.what, supposed.what.rpartition(".")[0] or supposed.what)
    target = _apply_description(target, policy.rules.vocabulary, supposed)
    subject = replace(
        subject,
        roles=subject.roles.union(supposed.roles),
        groups=subject.groups.union(supposed.groups),
        consents=subject.consents.union([target.name] if supposed.consented else []),
        may_call=subject.may_call.union([target.name] if supposed.whitelisted else []),
    )
    request = build_call_request(subject, target, CallEnvironment(background=supposed.background))
    return HypotheticalDecision(explain(policy, request, described=described), subject, target, found is not None)


def catalogue_lookup(find: Callable[[str], Any]) -> ServedLookup:
    """What a catalogue serves, for `suppose`; `find` raises where there is nothing."""

    def served(name: str) -> CallableTarget | None:
        try:
            return find(name).ruled
        except PaddockError:
            return None

    return served


def _hypothetical_principal(
    store: PluginStore, supposed: HypotheticalCall, now: datetime, *, described: bool
) -> PolicyPrincipal:
    if supposed.who.startswith(ROLE_PREFIX):
        role = supposed.who.removeprefix(ROLE_PREFIX)
        return hypothetical_principal({"id": "somebody", "roles": [role], "tenant": store.tenant})
    tenant: Tenant = store.tenant
    return store.database.read(lambda tx: current_principal(tx, supposed.who, tenant, now, described=described))


def _apply_description(target: CallableTarget, words: Vocabulary, supposed: HypotheticalCall) -> CallableTarget:
    """The target with what is said about it."""
    if supposed.effects:
        known = words.words["Effect"]
        target = replace(target, effects=frozenset(_require_known("effect", one, known) for one in supposed.effects))
    if supposed.flags:
        known = words.words["Flag"]
        target = replace(target, flags=frozenset(_require_known("flag", one, known) for one in supposed.flags))
    changed: dict[str, Any] = {}
    if supposed.tags:
        changed["tags"] = frozenset(_require_known("tag", one, words.tags) for one in supposed.tags)
    if supposed.kind:
        changed["kind"] = _require_known("kind", supposed.kind, words.words["Kind"])
    return replace(target, traits=replace(target.traits, **changed)) if changed else target


def _require_known(what: str, word: str, known: tuple[str, ...]) -> str:
    if word not in known:
        close = get_close_matches(word, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(known)}"
        raise OperatorError(f"there is no {what} {printable(word, 80)!r}", code="policy.no_word", hint=hint)
    return word
