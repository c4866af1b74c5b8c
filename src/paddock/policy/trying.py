"""Trying the rules on made-up requests: a table of cases, each with what the rules should say. Pure.

    cases:
      - who: {roles: [guest]}
        what: {call: notes.add, effects: [db_write]}
        expect: deny
      - who: {kind: agent, may_call: [notes.list]}
        what: {call: notes.list, effects: [read_only]}
        expect: allow
        rule: agents-on-their-whitelist

`who` may be one word, a role; `what` may be one word, the name of what is called. What is installed is taken as it
declares itself, except for what the case says; of anything else what the case says is all that is known. Where that is
nothing, something named by one word is taken for reading, and the case says that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

from paddock.core.errors import Invalid, NotFound, Problem
from paddock.core.schema import compile_trusted
from paddock.manifest.capability import BadCapability, parse
from paddock.manifest.document import Document
from paddock.policy.decision import Ask, Decision
from paddock.policy.engine import Policy
from paddock.policy.explain import answer_of
from paddock.policy.request import CallCircumstances, Request, to_call, to_propose, to_use
from paddock.policy.subject import NOBODY_BEHIND_IT, Subject, SubjectType, Traits
from paddock.policy.target import CallableTarget, capability_target
from paddock.policy.vocabulary import Vocabulary

Expected: TypeAlias = Literal["allow", "deny", "ask"]
Installed: TypeAlias = Callable[[str, bool], CallableTarget | None]
"""The installed callable of a full name, or None; told whether the case says what it does. Raises NotFound where its
plugin is installed and has no such callable."""

NOTHING: Final = "none"  # as the rule of a case: no rule allows it
MOST_CASES: Final = 10_000
_TYPES: Final[Mapping[str, SubjectType]] = {
    "person": "User",
    "local": "User",
    "key": "ApiKey",
    "agent": "Agent",
    "adapter": "Adapter",
    "plugin": "Plugin",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One request and what should come of it."""

    name: str
    request: Request
    expect: Expected
    rule: str | None = None
    approval: str | None = None
    taken_as: str | None = None
    """The effect that it was given because neither the case nor anything installed says one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that came out otherwise."""

    case: Case
    decision: Decision
    why: str


def failures(policy: Policy, cases: Iterable[Case]) -> list[Failure]:
    """The cases in which the rules do not say what they should."""
    found: list[Failure] = []
    for case in cases:
        decision = policy.decide_anew(case.request)
        why = _difference(case, decision)
        if why:
            found.append(Failure(case, decision, why))
    return found


def _difference(case: Case, decision: Decision) -> str:
    said = answer_of(decision)
    by = ", ".join(decision.policies) or decision.reason
    if said != case.expect:
        return f"expected {case.expect}, got {said} ({by})"
    if case.rule is not None and case.rule not in (decision.policies or (NOTHING,)):
        return f"expected the rule {case.rule}, got {by}"
    if case.approval is not None and not (isinstance(decision, Ask) and decision.kind == case.approval):
        got = decision.kind if isinstance(decision, Ask) else said
        return f"expected an approval of kind {case.approval}, got {got}"
    return ""


def nothing_installed(name: str, described: bool) -> CallableTarget | None:
    """For cases that are to come out the same everywhere."""
    del name, described


def read_cases(document: Document, vocabulary: Vocabulary, installed: Installed = nothing_installed) -> list[Case]:
    """The cases of a file.

    Args:
        document: The file.
        vocabulary: The words that cases may use.
        installed: What is installed; nothing when left out.

    Raises:
        Invalid: with every mistake in it; effects, tags and other words of closed lists are checked too.
    """
    problems = compile_trusted(_schema(vocabulary)).errors(document.value)
    listed = cast("Sequence[Mapping[str, Any]]", [] if problems else document.value["cases"])
    cases: list[Case] = []
    for index, said in enumerate(listed):
        path = f"cases[{index}].what"
        unclear = _unclear(path, said["what"])
        problems += unclear
        if unclear:
            continue
        try:
            cases.append(_case(index + 1, said, installed))
        except NotFound as error:
            problems.append(Problem(path, error.message, error.hint))
    if problems:
        count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise Invalid(f"{document.name} has {count}", document.placed(problems), code="policy.cases")
    return cases


def _unclear(path: str, what: Any) -> list[Problem]:
    if isinstance(what, str):
        return []
    actions = [action for action in ("call", "propose", "use") if action in what]
    if len(actions) != 1:
        return [Problem(path, "must be one of call, propose and use", "write e.g. {call: notes.add}")]
    try:
        if "use" in what:
            parse(what["use"])
    except BadCapability as error:
        return [Problem(f"{path}.use", error.message, error.hint)]
    return []


def _case(number: int, said: Mapping[str, Any], installed: Installed) -> Case:
    request, taken_as = _request(said["who"], said["what"], installed)
    name = said.get("name") or f"{number}: {request.subject} {request.action} {request.target}"
    return Case(name, request, said["expect"], said.get("rule"), said.get("approval"), taken_as)


def _request(who: Any, what: Any, installed: Installed) -> tuple[Request, str | None]:
    """What is asked, and the effect that was assumed for want of anything better."""
    subject = described_subject({"roles": [who]} if isinstance(who, str) else who)
    about: Mapping[str, Any] = {"call": what} if isinstance(what, str) else what
    if "use" in about:
        target = capability_target(parse(about["use"]), writes=about.get("writes", False))
        use = to_use(
            subject,
            target,
            method=about.get("method", ""),
            granted=about.get("granted", True),
            call_effects=about.get("call_effects"),
            underway_effects=about.get("underway_effects"),
        )
        return use, None
    name, described = about.get("call") or about["propose"], "effects" in about
    found = installed(name, described)
    target, taken_as = described_target(name, about, found), None
    if found is None and not described:
        taken_as = "read_only" if isinstance(what, str) else "unknown"
        target = replace(target, effects=frozenset({taken_as}))
    if "propose" in about:
        return to_propose(subject, target), taken_as
    circumstances = CallCircumstances(about.get("background", False), about.get("dry_run", False))
    return to_call(subject, target, circumstances), taken_as


def described_subject(said: Mapping[str, Any]) -> Subject:
    """Somebody made up; what is not said of them is not so."""
    kind = said.get("kind", "person")
    word = "user" if kind == "person" else kind
    return Subject(
        _TYPES[kind],
        said.get("id") or f"{word}:somebody",
        said.get("tenant", "default"),
        frozenset(said.get("roles", ())),
        frozenset(said.get("groups", ())),
        frozenset(said.get("scopes", ())),
        frozenset(said.get("consents", ())),
        frozenset(said.get("may_call", ())),
        said.get("interactive", False),
        described_traits(said, "plugin_kind"),
    )


def described_target(name: str, said: Mapping[str, Any], found: CallableTarget | None = None) -> CallableTarget:
    """A callable as it is installed, with what is said of it instead; or one made up, of whose effects, where they are
    not said, nothing is known."""
    base = found or CallableTarget(name, name.partition(".")[0])
    return CallableTarget(
        base.name,
        said.get("plugin") or base.plugin,
        described_traits(said, "kind", base.traits),
        frozenset(said.get("effects", base.effects)),
        said.get("requires_approval", base.requires_approval),
        frozenset(said.get("flags", base.flags)),
    )


def described_traits(said: Mapping[str, Any], kind: str, base: Traits = NOBODY_BEHIND_IT) -> Traits:
    return Traits(
        said.get(kind, base.kind),
        said.get("tier", base.tier),
        said.get("signature", base.signature),
        frozenset(said.get("tags", base.tags)),
    )


def _schema(vocabulary: Vocabulary) -> dict[str, Any]:
    words = vocabulary.words
    names: dict[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1}}
    flag: dict[str, Any] = {"type": "boolean"}
    text: dict[str, Any] = {"type": "string", "minLength": 1}

    def one_of(kind: str) -> dict[str, Any]:
        return {"enum": list(words[kind])}

    traits = {"tier": one_of("Tier"), "signature": one_of("Signature")}
    tags = {"type": "array", "items": one_of("Tag")}
    effects = {"type": "array", "items": one_of("Effect")}
    who = {
        "type": "object",
        "properties": {
            "kind": {"enum": list(_TYPES)},
            **dict.fromkeys(("id", "tenant"), text),
            **dict.fromkeys(("roles", "groups", "scopes", "consents", "may_call"), names),
            "interactive": flag,
            "plugin_kind": one_of("Kind"),
            "tags": tags,
            **traits,
        },
        "additionalProperties": False,
    }
    what = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("call", "propose", "use", "plugin", "method"), text),
            "kind": one_of("Kind"),
            **dict.fromkeys(("effects", "call_effects", "underway_effects"), effects),
            "tags": tags,
            "flags": {"type": "array", "items": one_of("Flag")},
            **traits,
            **dict.fromkeys(("requires_approval", "background", "dry_run", "writes", "granted"), flag),
        },
        "additionalProperties": False,
    }
    case = {
        "type": "object",
        "required": ["who", "what", "expect"],
        "properties": {
            "name": text,
            # One type with both: of alternatives the validator could only say that none fits.
            "who": who | {"type": ["string", "object"]},
            "what": what | {"type": ["string", "object"]},
            "expect": {"enum": ["allow", "deny", "ask"]},
            "rule": text,
            "approval": {"enum": ["confirmation", "consent", "action", "gate"]},
        },
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "required": ["cases"],
        "properties": {"cases": {"type": "array", "minItems": 1, "maxItems": MOST_CASES, "items": case}},
        "additionalProperties": False,
    }
