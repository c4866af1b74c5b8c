"""Policy test cases: read from a YAML or TOML file, and run against the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.config.toml_file import parse_toml
from paddock.core.errors import Invalid, NotFound, OperatorError, Problem
from paddock.core.printable import printable
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

CASES_FILE: Final = "cases.yaml"
"""The operator's own cases, beside the rule files."""
SHIPPED_CASES: Final = Path(__file__).with_name("default_cases.yaml")
MAX_CASE_FILE_BYTES: Final = 4 << 20


def read_case_file(file: Path | None = None) -> ParsedDocument:
    """Read a table of cases; by default the one that ships with the rules.

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


def parse_cases(text: str) -> ParsedDocument:
    """Parse the text of the operator's own cases; raises Invalid."""
    return parse_yaml(CASES_FILE, text)


ExpectedDecision: TypeAlias = Literal["allow", "deny", "ask"]
FindInstalledTarget: TypeAlias = Callable[[str, bool], CallableTarget | None]
"""Returns the installed callable of a full name, or None; the flag says whether the case describes its effects. Raises
NotFound if the plugin is installed and has no such callable."""

NO_RULE: Final = "none"  # the expected rule of a case that no rule allows
MAX_CASES: Final = 10_000
_PRINCIPAL_TYPES: Final[Mapping[str, PrincipalType]] = {
    "person": "User",
    "local": "User",
    "key": "ApiKey",
    "agent": "Agent",
    "adapter": "Adapter",
    "plugin": "Plugin",
}


class PolicyCase(Struct, frozen=True):
    """One request and the expected decision."""

    name: str
    request: PolicyRequest
    expect: ExpectedDecision
    rule: str | None = None
    approval: str | None = None
    assumed_effect: str | None = None
    """The effect assumed because neither the case nor an installed plugin declares one."""


class FailedCase(Struct, frozen=True):
    """A case with an unexpected decision."""

    case: PolicyCase
    decision: Decision
    why: str


def find_failed_cases(policy: Policy, cases: Iterable[PolicyCase]) -> list[FailedCase]:
    """Return the cases for which the rules decide otherwise than expected."""
    failed: list[FailedCase] = []
    for case in cases:
        decision = policy.decide_uncached(case.request)
        difference = _difference(case, decision)
        if difference:
            failed.append(FailedCase(case, decision, difference))
    return failed


def _difference(case: PolicyCase, decision: Decision) -> str:
    word = decision_word(decision)
    deciding = ", ".join(decision.policies) or decision.reason
    if word != case.expect:
        return f"expected {case.expect}, got {word} ({deciding})"
    if case.rule is not None and case.rule not in (decision.policies or (NO_RULE,)):
        return f"expected the rule {case.rule}, got {deciding}"
    if case.approval is not None and not (isinstance(decision, Ask) and decision.kind == case.approval):
        actual = decision.kind if isinstance(decision, Ask) else word
        return f"expected an approval of kind {case.approval}, got {actual}"
    return ""


def no_installed_target(name: str, described: bool) -> CallableTarget | None:
    """A `FindInstalledTarget` for cases that must come out the same everywhere."""
    del name, described


def read_cases(
    document: ParsedDocument, vocabulary: Vocabulary, installed: FindInstalledTarget = no_installed_target
) -> list[PolicyCase]:
    """Parse the cases of a document.

    Args:
        document: The parsed file.
        vocabulary: The words that cases may use.
        installed: Finds installed callables; none by default.

    Raises:
        Invalid: with every mistake; words of closed vocabularies, such as effects and tags, are checked too.
    """
    problems = compile_trusted(_cases_schema(vocabulary)).errors(document.value)
    case_items = cast("Sequence[Mapping[str, Any]]", [] if problems else document.value["cases"])
    cases: list[PolicyCase] = []
    for index, item in enumerate(case_items):
        path = f"cases[{index}].what"
        action_problems = _unclear_action(path, item["what"])
        problems += action_problems
        if action_problems:
            continue
        try:
            cases.append(_read_case(index + 1, item, installed))
        except NotFound as error:
            problems.append(error.as_problem(path))
    problems += _repeated_names(document, case_items)
    if problems:
        count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise Invalid(f"{document.name} has {count}", document.with_lines(problems), code="policy.cases")
    return cases


def _repeated_names(document: ParsedDocument, case_items: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Return a problem for each name that an earlier case has: one of them could fail under the other's name."""
    first: dict[str, int] = {}
    problems: list[Problem] = []
    for index, name in enumerate(item.get("name") for item in case_items):
        if name is None:
            continue
        if (earlier := first.setdefault(name, index)) != index:
            line = document.line_of(("cases", earlier, "name"))
            where = f"in line {line}" if line is not None else f"number {earlier + 1}"
            message = f"there is a case {printable(name, 100)!r} already, {where}"
            problems.append(Problem(f"cases[{index}].name", message, "give it another name"))
    return problems


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


def _read_case(number: int, item: Mapping[str, Any], installed: FindInstalledTarget) -> PolicyCase:
    request, assumed_effect = _read_request(item["who"], item["what"], installed)
    name = item.get("name") or f"{number}: {request.principal} {request.action} {request.target}"
    return PolicyCase(name, request, item["expect"], item.get("rule"), item.get("approval"), assumed_effect)


def _read_request(who: Any, what: Any, installed: FindInstalledTarget) -> tuple[PolicyRequest, str | None]:
    """Build the request of a case; return the effect that was assumed, if the case does not say one."""
    principal = hypothetical_principal({"roles": [who]} if isinstance(who, str) else who)
    description: Mapping[str, Any] = {"call": what} if isinstance(what, str) else what
    if "use" in description:
        target = capability_target(parse_capability(description["use"]), writes=description.get("writes", False))
        use_request = build_use_request(
            principal,
            target,
            method=description.get("method", ""),
            granted=description.get("granted", True),
            call_effects=description.get("call_effects"),
            underway_effects=description.get("underway_effects"),
        )
        return use_request, None
    name, described = description.get("call") or description["propose"], "effects" in description
    found = installed(name, described)
    target, assumed_effect = hypothetical_target(name, description, found), None
    if found is None and not described:
        assumed_effect = "read_only" if isinstance(what, str) else "unknown"
        target = replace(target, effects=frozenset({assumed_effect}))
    if "propose" in description:
        return build_propose_request(principal, target), assumed_effect
    environment = CallEnvironment(description.get("background", False), description.get("dry_run", False))
    return build_call_request(principal, target, environment), assumed_effect


def hypothetical_principal(description: Mapping[str, Any]) -> PolicyPrincipal:
    """Build a principal from a description; what it does not mention is absent."""
    kind = description.get("kind", "person")
    prefix = "user" if kind == "person" else kind
    return PolicyPrincipal(
        _PRINCIPAL_TYPES[kind],
        description.get("id") or f"{prefix}:somebody",
        description.get("tenant", "default"),
        frozenset(description.get("roles", ())),
        frozenset(description.get("groups", ())),
        frozenset(description.get("scopes", ())),
        frozenset(description.get("consents", ())),
        frozenset(description.get("may_call", ())),
        description.get("interactive", False),
        hypothetical_traits(description, "plugin_kind"),
    )


def hypothetical_target(
    name: str, description: Mapping[str, Any], installed: CallableTarget | None = None
) -> CallableTarget:
    """Build a target from an installed callable with the description's overrides; or one made up, with unknown effects
    unless described.
    """
    base = installed or CallableTarget(name, name.partition(".")[0])
    return CallableTarget(
        base.name,
        description.get("plugin") or base.plugin,
        hypothetical_traits(description, "kind", base.traits),
        frozenset(description.get("effects", base.effects)),
        description.get("requires_approval", base.requires_approval),
        frozenset(description.get("flags", base.flags)),
    )


def hypothetical_traits(
    description: Mapping[str, Any], kind: str, base: PluginTraits = UNTRUSTED_TRAITS
) -> PluginTraits:
    return PluginTraits(
        description.get(kind, base.kind),
        description.get("tier", base.tier),
        description.get("signature", base.signature),
        frozenset(description.get("tags", base.tags)),
    )


def _cases_schema(vocabulary: Vocabulary) -> dict[str, Any]:
    words = vocabulary.words
    names: dict[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1}}
    flag: dict[str, Any] = {"type": "boolean"}
    text: dict[str, Any] = {"type": "string", "minLength": 1}

    def enum_of(kind: str) -> dict[str, Any]:
        return {"enum": list(words[kind])}

    traits = {"tier": enum_of("Tier"), "signature": enum_of("Signature")}
    tags = {"type": "array", "items": enum_of("Tag")}
    effects = {"type": "array", "items": enum_of("Effect")}
    who = {
        "type": "object",
        "properties": {
            "kind": {"enum": list(_PRINCIPAL_TYPES)},
            **dict.fromkeys(("id", "tenant"), text),
            **dict.fromkeys(("roles", "groups", "scopes", "consents", "may_call"), names),
            "interactive": flag,
            "plugin_kind": enum_of("Kind"),
            "tags": tags,
            **traits,
        },
        "additionalProperties": False,
    }
    what = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("call", "propose", "use", "plugin", "method"), text),
            "kind": enum_of("Kind"),
            **dict.fromkeys(("effects", "call_effects", "underway_effects"), effects),
            "tags": tags,
            "flags": {"type": "array", "items": enum_of("Flag")},
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
            # One type with both: for alternatives the validator could only report that none matches.
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
