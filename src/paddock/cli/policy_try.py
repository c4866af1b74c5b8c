"""`paddock policy try NAME`: what the rules would say to a call, of something installed or only described."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled

if TYPE_CHECKING:
    from paddock.host.command import CommandHost
    from paddock.policy.subject import Subject
    from paddock.policy.target import CallableTarget
    from paddock.policy.vocabulary import Vocabulary
    from paddock.store.database import Transaction

Words = list[str] | None


@reporting
def try_(
    name: Annotated[str, typer.Argument(help="What would be called, as in notes.add; it need not be installed.")],
    *,
    who: Annotated[str, typer.Option("--as", metavar="PRINCIPAL", help="Who calls, as in user:ann (you).")] = "",
    role: Annotated[Words, typer.Option(help="A role they have besides, more than once for more.")] = None,
    group: Annotated[Words, typer.Option(help="A group they are in besides.")] = None,
    consent: Annotated[bool, typer.Option("--consent", help="As if they had consented to it.")] = False,
    whitelisted: Annotated[bool, typer.Option("--whitelisted", help="As if it were on the agent's whitelist.")] = False,
    effect: Annotated[Words, typer.Option(help="An effect it has, instead of those it declares.")] = None,
    tag: Annotated[Words, typer.Option(help="A policy tag it has, instead of its own.")] = None,
    kind: Annotated[str, typer.Option(help="Its kind: plugin, agent, operator, tool or adapter.")] = "",
    background: Annotated[bool, typer.Option("--background", help="As if nobody waited for it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the rules would say to a call, which rule decides, and what would change it. Nothing is called."""
    from paddock.cli.opening import reading
    from paddock.policy.explain import explain
    from paddock.policy.loading import load_policy
    from paddock.policy.request import CallCircumstances, to_call

    with reading() as host:
        policy = load_policy(host.directories, host.loaded.settings.policy)
        target, installed = _target(host, name, described=bool(effect))
        subject = host.plugins.database.read(lambda tx: _subject(tx, who, described=bool(role or group)))
    target = _described(target, policy.rules.vocabulary, effect, tag, kind)
    subject = replace(
        subject,
        roles=subject.roles.union(role or ()),
        groups=subject.groups.union(group or ()),
        consents=subject.consents.union([target.name] if consent else []),
        may_call=subject.may_call.union([target.name] if whitelisted else []),
    )
    explained = explain(policy, to_call(subject, target, CallCircumstances(background=background)))
    if as_json:
        about = {"effects": sorted(target.effects), "tags": sorted(target.traits.tags), "installed": installed}
        document(explained.to_value() | {"roles": sorted(subject.roles), "target": about})
        return
    if not installed:
        say(f"{styled('!', 'yellow')} nothing installed is called {target.name}; it is taken as you describe it")
    first, *rest = explained.lines()
    result(styled(first, {"allow": "green", "deny": "red", "ask": "yellow"}[explained.answer]))
    for line in rest:
        result(line)


def _subject(tx: Transaction, who: str, *, described: bool) -> Subject:
    from datetime import UTC, datetime

    from paddock.cli.principals import DEFAULT, at_this_machine
    from paddock.core.call import Principal
    from paddock.core.errors import NotFound
    from paddock.policy.subject import subject_of
    from paddock.principals.consents import consented_names
    from paddock.principals.subjects import KINDS, parse_subject, principal_of

    asked = who or at_this_machine()
    try:
        principal = principal_of(tx, asked, DEFAULT, datetime.now(UTC))
    except NotFound:
        if not described:
            raise
        parsed = parse_subject(asked)
        principal = Principal(parsed.id, kind=KINDS[parsed.word], tenant=parsed.tenant)
    consents = consented_names(tx, principal.tenant, principal.person)
    may_call = _whitelist(tx, principal.id.partition(":")[2]) if principal.kind == "agent" else ()
    return subject_of(principal, consents=consents, may_call=may_call)


def _whitelist(tx: Transaction, agent: str) -> tuple[str, ...]:
    """What an agent may call, where it is an installed plugin."""
    from paddock.plugins.registry import manifest_of
    from paddock.plugins.rows import current_versions

    row = current_versions(tx).get(agent)
    return manifest_of(row).allowed_actions if row else ()


def _target(host: CommandHost, name: str, *, described: bool) -> tuple[CallableTarget, bool]:
    """The callable of that name, and whether it is installed.

    Raises:
        NotFound: its plugin is, has no such callable, and nothing is said of it.
    """
    from paddock.core.errors import NotFound
    from paddock.manifest.model import CallableSpec, Form
    from paddock.manifest.names import full_name
    from paddock.plugins.listing import State, list_plugins
    from paddock.plugins.registry import manifest_of
    from paddock.plugins.trust import standing_of, trusted_keys
    from paddock.policy.target import CallableTarget, callable_target

    keys = host.plugins.database.read(trusted_keys)
    for listed in list_plugins(host.plugins):
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
        intact = listed.state is not State.MODIFIED
        standing = standing_of(row, {key.key_id: key.label for key in keys}, intact=intact)
        return callable_target(manifest, spec, tier=standing.tier, signature=str(standing.state)), True
    return CallableTarget(name, name.rpartition(".")[0] or name), False


def _described(target: CallableTarget, words: Vocabulary, effect: Words, tag: Words, kind: str) -> CallableTarget:
    """The target with what was typed about it.

    Raises:
        OperatorError: a word that is in no list.
    """
    if effect:
        target = replace(target, effects=frozenset(_known("effect", one, words.words["Effect"]) for one in effect))
    changed: dict[str, Any] = {}
    if tag:
        changed["tags"] = frozenset(_known("tag", one, words.tags) for one in tag)
    if kind:
        changed["kind"] = _known("kind", kind, words.words["Kind"])
    return replace(target, traits=replace(target.traits, **changed)) if changed else target


def _known(what: str, word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    from paddock.core.errors import OperatorError
    from paddock.core.printable import printable

    if word not in known:
        close = get_close_matches(word, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(known)}"
        raise OperatorError(f"there is no {what} {printable(word, 80)!r}", code="policy.no_word", hint=hint)
    return word
