"""Reading a table of cases from disk: YAML, or TOML by its ending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from paddock.config.toml_file import parse_toml
from paddock.core.errors import Invalid, NotFound, OperatorError, Problem
from paddock.core.schema.compile import compile_trusted
from paddock.manifest.capability import InvalidCapability, parse_capability
from paddock.manifest.syntax.document import ParsedDocument
from paddock.manifest.syntax.yaml_document import parse_yaml
from paddock.policy.decision import Ask, Decision
from paddock.policy.engine import Policy
from paddock.policy.explain import decision_word
from paddock.policy.principal import UNTRUSTED_TRAITS, PluginTraits, PolicyPrincipal, PrincipalType
from paddock.policy.request import (
    CallEnvironment,
    PolicyRequest,
    build_call_request,
    build_propose_request,
    build_use_request,
)
from paddock.policy.schema import Vocabulary
from paddock.policy.target import CallableTarget, capability_target

SHIPPED_CASES: Final = Path(__file__).with_name("default_cases.yaml")
MAX_CASE_FILE_BYTES: Final = 4 << 20


def read_case_file(file: Path | None = None) -> ParsedDocument:
    """The table as values; the one that comes with the shipped rules where no file is named.

    Raises:
        NotFound: there is no such file.
        OperatorError: it cannot be read, or is too large.
        Invalid: it is neither YAML nor TOML.
    """
    path = file or SHIPPED_CASES
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_CASE_FILE_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", code="policy.no_cases") from None
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}", code="policy.unreadable") from error
    if len(content) > MAX_CASE_FILE_BYTES:
        raise OperatorError(f"{path} is larger than {MAX_CASE_FILE_BYTES >> 20} MiB", code="policy.too_large")
    if path.suffix == ".toml":
        return ParsedDocument(str(path), parse_toml(content, path)[1])
    return parse_yaml(str(path), content.decode("utf-8", "replace"))


ExpectedDecision: TypeAlias = Literal["allow", "deny", "ask"]
FindInstalledTarget: TypeAlias = Callable[[str, bool], CallableTarget | None]
"""The installed callable of a full name, or None; told whether the case says what it does. Raises NotFound where its
plugin is installed and has no such callable."""

NO_RULE: Final = "none"  # as the rule of a case: no rule allows it
MAX_CASES: Final = 10_000
_TYPES: Final[Mapping[str, PrincipalType]] = {
    "person": "User",
    "local": "User",
    "key": "ApiKey",
    "agent": "Agent",
    "adapter": "Adapter",
    "plugin": "Plugin",
}


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """One request and what should come of it."""

    name: str
    request: PolicyRequest
    expect: ExpectedDecision
    rule: str | None = None
    approval: str | None = None
    assumed_effect: str | None = None
    """The effect that it was given because neither the case nor anything installed says one."""


@dataclass(frozen=True, slots=True)
class FailedCase:
    """A case that came out otherwise."""

    case: PolicyCase
    decision: Decision
    why: str


def find_failed_cases(policy: Policy, cases: Iterable[PolicyCase]) -> list[FailedCase]:
    """The cases in which the rules do not say what they should."""
    found: list[FailedCase] = []
    for case in cases:
        decision = policy.decide_uncached(case.request)
        why = _difference(case, decision)
        if why:
            found.append(FailedCase(case, decision, why))
    return found


def _difference(case: PolicyCase, decision: Decision) -> str:
    said = decision_word(decision)
    by = ", ".join(decision.policies) or decision.reason
    if said != case.expect:
        return f"expected {case.expect}, got {said} ({by})"
    if case.rule is not None and case.rule not in (decision.policies or (NO_RULE,)):
        return f"expected the rule {case.rule}, got {by}"
    if case.approval is not None and not (isinstance(decision, Ask) and decision.kind == case.approval):
        got = decision.kind if isinstance(decision, Ask) else said
        return f"expected an approval of kind {case.approval}, got {got}"
    return ""


def no_installed_target(name: str, described: bool) -> CallableTarget | None:
    """For cases that are to come out the same everywhere."""
    del name, described


def read_cases(
    document: ParsedDocument, vocabulary: Vocabulary, installed: FindInstalledTarget = no_installed_target
) -> list[PolicyCase]:
    """The cases of a file.

    Args:
        document: The file.
        vocabulary: The words that cases may use.
        installed: What is installed; nothing when left out.

    Raises:
        Invalid: with every mistake in it; effects, tags and other words of closed lists are checked too.
    """
    problems = compile_trusted(_cases_schema(vocabulary)).errors(document.value)
    listed = cast("Sequence[Mapping[str, Any]]", [] if problems else document.value["cases"])
    cases: list[PolicyCase] = []
    for index, said in enumerate(listed):
        path = f"cases[{index}].what"
        unclear = _unclear_action(path, said["what"])
        problems += unclear
        if unclear:
            continue
        try:
            cases.append(_read_case(index + 1, said, installed))
        except NotFound as error:
            problems.append(Problem(path, error.message, error.hint))
    if problems:
        count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise Invalid(f"{document.name} has {count}", document.with_lines(problems), code="policy.cases")
    return cases


def _unclear_action(path: str, what: Any) -> list[Problem]:
    if isinstance(what, str):
        return []
    actions = [action for action in ("call", "propose", "use") if action in what]
    if len(actions) != 1:
        return [Problem(path, "must be one of call, propose and use", "write e.g. {call: notes.add}")]
    try:
        if "use" in what:
            parse_capability(what["use"])
    except InvalidCapability as error:
        return [Problem(f"{path}.use", error.message, error.hint)]
    return []


def _read_case(number: int, said: Mapping[str, Any], installed: FindInstalledTarget) -> PolicyCase:
    request, taken_as = _read_request(said["who"], said["what"], installed)
    name = said.get("name") or f"{number}: {request.principal} {request.action} {request.target}"
    return PolicyCase(name, request, said["expect"], said.get("rule"), said.get("approval"), taken_as)


def _read_request(who: Any, what: Any, installed: FindInstalledTarget) -> tuple[PolicyRequest, str | None]:
    """What is asked, and the effect that was assumed for want of anything better."""
    subject = hypothetical_principal({"roles": [who]} if isinstance(who, str) else who)
    about: Mapping[str, Any] = {"call": what} if isinstance(what, str) else what
    if "use" in about:
        target = capability_target(parse_capability(about["use"]), writes=about.get("writes", False))
        use = build_use_request(
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
    target, taken_as = hypothetical_target(name, about, found), None
    if found is None and not described:
        taken_as = "read_only" if isinstance(what, str) else "unknown"
        target = replace(target, effects=frozenset({taken_as}))
    if "propose" in about:
        return build_propose_request(subject, target), taken_as
    circumstances = CallEnvironment(about.get("background", False), about.get("dry_run", False))
    return build_call_request(subject, target, circumstances), taken_as


def hypothetical_principal(said: Mapping[str, Any]) -> PolicyPrincipal:
    """Somebody made up; what is not said of them is not so."""
    kind = said.get("kind", "person")
    word = "user" if kind == "person" else kind
    return PolicyPrincipal(
        _TYPES[kind],
        said.get("id") or f"{word}:somebody",
        said.get("tenant", "default"),
        frozenset(said.get("roles", ())),
        frozenset(said.get("groups", ())),
        frozenset(said.get("scopes", ())),
        frozenset(said.get("consents", ())),
        frozenset(said.get("may_call", ())),
        said.get("interactive", False),
        hypothetical_traits(said, "plugin_kind"),
    )


def hypothetical_target(name: str, said: Mapping[str, Any], found: CallableTarget | None = None) -> CallableTarget:
    """A callable as it is installed, with what is said of it instead; or one made up, of whose effects, where they are
    not said, nothing is known."""
    base = found or CallableTarget(name, name.partition(".")[0])
    return CallableTarget(
        base.name,
        said.get("plugin") or base.plugin,
        hypothetical_traits(said, "kind", base.traits),
        frozenset(said.get("effects", base.effects)),
        said.get("requires_approval", base.requires_approval),
        frozenset(said.get("flags", base.flags)),
    )


def hypothetical_traits(said: Mapping[str, Any], kind: str, base: PluginTraits = UNTRUSTED_TRAITS) -> PluginTraits:
    return PluginTraits(
        said.get(kind, base.kind),
        said.get("tier", base.tier),
        said.get("signature", base.signature),
        frozenset(said.get("tags", base.tags)),
    )


def _cases_schema(vocabulary: Vocabulary) -> dict[str, Any]:
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
        "properties": {"cases": {"type": "array", "minItems": 1, "maxItems": MAX_CASES, "items": case}},
        "additionalProperties": False,
    }
