"""`paddock policy try NAME`: what the rules would say to a call, of something installed or only described."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled

if TYPE_CHECKING:
    from paddock.policy.target import CallableTarget
    from paddock.policy.vocabulary import Vocabulary

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
    flag: Annotated[Words, typer.Option(help="What is odd about its words, instead of what was found.")] = None,
    kind: Annotated[str, typer.Option(help="Its kind: plugin, agent, operator, tool or adapter.")] = "",
    background: Annotated[bool, typer.Option("--background", help="As if nobody waited for it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the rules would say to a call, which rule decides, and what would change it. Nothing is called."""
    from datetime import UTC, datetime

    from paddock.cli.opening import reading
    from paddock.cli.principals import DEFAULT, at_this_machine
    from paddock.host.seen_by_rules import callable_now, subject_now
    from paddock.policy.explain import explain
    from paddock.policy.loading import load_policy
    from paddock.policy.request import CallCircumstances, to_call
    from paddock.policy.target import CallableTarget

    asked, now, described = who or at_this_machine(), datetime.now(UTC), bool(role or group)
    with reading() as host:
        policy = load_policy(host.directories, host.loaded.settings.policy)
        installed = callable_now(host.plugins, name, described=bool(effect))
        subject = host.plugins.database.read(lambda tx: subject_now(tx, asked, DEFAULT, now, described=described))
    target = installed or CallableTarget(name, name.rpartition(".")[0] or name)
    target = _described(target, policy.rules.vocabulary, effect, tag, flag, kind)
    subject = replace(
        subject,
        roles=subject.roles.union(role or ()),
        groups=subject.groups.union(group or ()),
        consents=subject.consents.union([target.name] if consent else []),
        may_call=subject.may_call.union([target.name] if whitelisted else []),
    )
    request = to_call(subject, target, CallCircumstances(background=background))
    explained = explain(policy, request, described=described)
    if as_json:
        about = {
            "effects": sorted(target.effects),
            "tags": sorted(target.traits.tags),
            "flags": sorted(target.flags),
            "installed": installed is not None,
        }
        document(explained.to_value() | {"roles": sorted(subject.roles), "target": about})
        return
    if installed is None:
        say(f"{styled('!', 'yellow')} nothing installed is called {target.name}; it is taken as you describe it")
    first, *rest = explained.lines()
    result(styled(first, {"allow": "green", "deny": "red", "ask": "yellow"}[explained.answer]))
    for line in rest:
        result(line)


def _described(
    target: CallableTarget, words: Vocabulary, effect: Words, tag: Words, flag: Words, kind: str
) -> CallableTarget:
    """The target with what was typed about it.

    Raises:
        OperatorError: a word that is in no list.
    """
    if effect:
        target = replace(target, effects=frozenset(_known("effect", one, words.words["Effect"]) for one in effect))
    if flag:
        target = replace(target, flags=frozenset(_known("flag", one, words.words["Flag"]) for one in flag))
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
