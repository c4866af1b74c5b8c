"""What a rule says about itself to people and to approvals: its `@…` lines, checked. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from paddock.core.errors import Problem
from paddock.policy.decision import APPROVAL_KINDS, DEFAULT_APPROVERS, REMEMBER_LIMITS, ApprovalKind, RememberLimit
from paddock.policy.rule_source import RuleSource, rule_problem

KNOWN_ANNOTATIONS: Final = (
    "id",
    "text",
    "public_text",
    "approval",
    "approvers",
    "quorum",
    "four_eyes",
    "remember",
    "fixed",
)
_APPROVAL_ANNOTATIONS: Final = ("approvers", "quorum", "four_eyes", "remember")
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_APPROVER = re.compile(r"(role|group|user|local):[^\s,]{1,200}")
MAX_QUORUM: Final = 20


@dataclass(frozen=True, slots=True)
class ApprovalRequirement:
    """The approval that a rule asks for."""

    kind: ApprovalKind = "action"
    approvers: tuple[str, ...] = DEFAULT_APPROVERS
    quorum: int = 1
    four_eyes: bool | None = None
    remember: RememberLimit = "never"


DEFAULT_REQUIREMENT: Final = ApprovalRequirement()


@dataclass(frozen=True, slots=True)
class RuleAnnotations:
    """Everything a rule says about itself."""

    id: str
    text: str
    public_text: str = ""
    fixed: bool = False
    wanted: ApprovalRequirement = DEFAULT_REQUIREMENT


def read_annotations(piece: RuleSource, policy: Mapping[str, Any]) -> tuple[RuleAnnotations, list[Problem]]:
    """The annotations of a rule, and all that is wrong with them.

    Args:
        piece: The rule, for lines.
        policy: The same as Cedar's JSON.
    """
    said = cast("dict[str, str | None]", policy.get("annotations") or {})
    problems = [_unknown_annotation(piece, name) for name in said if name not in KNOWN_ANNOTATIONS]
    problems += _identity_problems(piece, said)
    problems += _approval_problems(piece, said, policy)
    if "public_text" in said and policy["effect"] != "forbid" and not can_be_approved(policy):
        hint = "people are told why something is forbidden or asked about; of what is allowed they are told nothing"
        problems.append(rule_problem(piece, "@public_text has no effect here", hint, at="@public_text"))
    if problems:
        return RuleAnnotations(said.get("id") or "", said.get("text") or ""), problems
    asked = "approval" in said
    wanted = ApprovalRequirement(
        cast("ApprovalKind", said["approval"]) if asked else "action",
        tuple(sorted(_parse_approvers(said["approvers"] or ""))) if "approvers" in said else DEFAULT_APPROVERS,
        int(said.get("quorum") or 1),
        {"yes": True, "no": False}.get(said.get("four_eyes") or ""),
        cast("RememberLimit", said.get("remember") or "never"),
    )
    return (
        RuleAnnotations(said["id"] or "", said["text"] or "", said.get("public_text") or "", "fixed" in said, wanted),
        [],
    )


def _unknown_annotation(piece: RuleSource, name: str) -> Problem:
    close = difflib.get_close_matches(name, KNOWN_ANNOTATIONS, n=1)
    hint = (
        f"did you mean @{close[0]}?" if close else f"there are: {', '.join(f'@{known}' for known in KNOWN_ANNOTATIONS)}"
    )
    return rule_problem(piece, f"there is no annotation @{name}", hint, at=f"@{name}")


def _identity_problems(piece: RuleSource, said: Mapping[str, str | None]) -> list[Problem]:
    problems: list[Problem] = []
    if not said.get("id"):
        problems.append(rule_problem(piece, "the rule has no @id", '@id("what-it-is-called") before it'))
    elif not _ID.fullmatch(said["id"] or ""):
        hint = "lower case letters, digits, '-', '_' and '.', at most 100"
        problems.append(rule_problem(piece, f"@id {said['id']!r} is no id", hint, at="@id"))
    if not (said.get("text") or "").strip():
        hint = '@text("…") before it: what people are told when it decides'
        problems.append(rule_problem(piece, "the rule has no @text", hint))
    return problems


def _approval_problems(piece: RuleSource, said: Mapping[str, str | None], policy: Mapping[str, Any]) -> list[Problem]:
    problems: list[Problem] = []

    def wrong(name: str, hint: str) -> None:
        problems.append(rule_problem(piece, f"@{name} cannot be {said[name] or ''!r}", hint, at=f"@{name}"))

    if "approval" in said and said["approval"] not in APPROVAL_KINDS:
        wrong("approval", f"one of: {', '.join(APPROVAL_KINDS)}")
    if "approvers" in said and not _parse_approvers(said["approvers"] or ""):
        wrong("approvers", "name them as role:NAME, group:NAME or user:NAME, with commas between")
    quorum = said.get("quorum") or "1"
    if "quorum" in said and not (quorum.isascii() and quorum.isdigit() and 1 <= int(quorum) <= MAX_QUORUM):
        wrong("quorum", f"a number from 1 to {MAX_QUORUM}")
    if "four_eyes" in said and said["four_eyes"] not in ("yes", "no"):
        wrong("four_eyes", "yes or no")
    if "remember" in said and said["remember"] not in REMEMBER_LIMITS:
        wrong("remember", f"one of: {', '.join(REMEMBER_LIMITS)}")
    if stray := [name for name in _APPROVAL_ANNOTATIONS if name in said and "approval" not in said]:
        hint = f"say which: @approval({APPROVAL_KINDS[2]!r})".replace("'", '"')
        problems.append(rule_problem(piece, f"@{stray[0]} stands without @approval", hint, at=f"@{stray[0]}"))
    if said.get("approval") in ("confirmation", "consent"):
        hint = 'the person the call is for answers it, and nobody else; write @approval("action") to have others asked'
        problems += [
            rule_problem(piece, f"@{name} has no effect on a {said['approval']}", hint, at=f"@{name}")
            for name in ("approvers", "quorum", "four_eyes")
            if name in said
        ]
    if "approval" in said and not can_be_approved(policy):
        hint = 'forbid "callUnattended" alone, or permit "call" alone: then a person\'s yes makes the difference'
        problems.append(rule_problem(piece, "@approval has no effect here", hint, at="@approval"))
    return problems


def can_be_approved(policy: Mapping[str, Any]) -> bool:
    """Whether a call that the rule, as Cedar's JSON, decides could be allowed by a person's yes."""
    action = cast("dict[str, Any]", policy["action"])
    wanted = "callUnattended" if policy["effect"] == "forbid" else "call"
    return action["op"] == "==" and action.get("entity", {}).get("id") == wanted


def _parse_approvers(text: str) -> list[str]:
    """The named approvers, or nothing where one of them cannot be one."""
    names = [name.strip() for name in text.split(",")]
    return names if all(_APPROVER.fullmatch(name) for name in names) else []
