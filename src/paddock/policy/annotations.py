"""Reads and checks the `@…` annotations of a rule. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

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


class ApprovalRequirement(Struct, frozen=True):
    """The approval that a rule requires."""

    kind: ApprovalKind = "action"
    approvers: tuple[str, ...] = DEFAULT_APPROVERS
    quorum: int = 1
    four_eyes: bool | None = None
    remember: RememberLimit = "never"


DEFAULT_REQUIREMENT: Final = ApprovalRequirement()


class RuleAnnotations(Struct, frozen=True):
    """All annotations of a rule."""

    id: str
    text: str
    public_text: str = ""
    fixed: bool = False
    wanted: ApprovalRequirement = DEFAULT_REQUIREMENT


def read_annotations(source: RuleSource, policy: Mapping[str, Any]) -> tuple[RuleAnnotations, list[Problem]]:
    """Read the annotations of a rule; return all problems with them.

    Args:
        source: The rule's source, for line numbers.
        policy: The rule in Cedar's JSON format.
    """
    annotations = cast("dict[str, str | None]", policy.get("annotations") or {})
    problems = [_unknown_annotation(source, name) for name in annotations if name not in KNOWN_ANNOTATIONS]
    problems += _identity_problems(source, annotations)
    problems += _approval_problems(source, annotations, policy)
    if "public_text" in annotations and policy["effect"] != "forbid" and not can_be_approved(policy):
        hint = "callers get a reason only for calls that are denied or need approval, not for those that are allowed"
        problems.append(rule_problem(source, "@public_text has no effect here", hint, at="@public_text"))
    if problems:
        return RuleAnnotations(annotations.get("id") or "", annotations.get("text") or ""), problems
    has_approval = "approval" in annotations
    requirement = ApprovalRequirement(
        cast("ApprovalKind", annotations["approval"]) if has_approval else "action",
        tuple(sorted(_parse_approvers(annotations["approvers"] or "")))
        if "approvers" in annotations
        else DEFAULT_APPROVERS,
        int(annotations.get("quorum") or 1),
        {"yes": True, "no": False}.get(annotations.get("four_eyes") or ""),
        cast("RememberLimit", annotations.get("remember") or "never"),
    )
    return (
        RuleAnnotations(
            annotations["id"] or "",
            annotations["text"] or "",
            annotations.get("public_text") or "",
            "fixed" in annotations,
            requirement,
        ),
        [],
    )


def _unknown_annotation(source: RuleSource, name: str) -> Problem:
    close = difflib.get_close_matches(name, KNOWN_ANNOTATIONS, n=1)
    hint = (
        f"did you mean @{close[0]}?"
        if close
        else f"there are: {', '.join(f'@{annotation}' for annotation in KNOWN_ANNOTATIONS)}"
    )
    return rule_problem(source, f"there is no annotation @{name}", hint, at=f"@{name}")


def _identity_problems(source: RuleSource, annotations: Mapping[str, str | None]) -> list[Problem]:
    problems: list[Problem] = []
    if not annotations.get("id"):
        problems.append(rule_problem(source, "the rule has no @id", '@id("what-it-is-called") before it'))
    elif not _ID.fullmatch(annotations["id"] or ""):
        hint = "lower case letters, digits, '-', '_' and '.', at most 100"
        problems.append(rule_problem(source, f"@id {annotations['id']!r} is no id", hint, at="@id"))
    if not (annotations.get("text") or "").strip():
        hint = '@text("…") before it: the reason that people read when it decides'
        problems.append(rule_problem(source, "the rule has no @text", hint))
    return problems


def _approval_problems(
    source: RuleSource, annotations: Mapping[str, str | None], policy: Mapping[str, Any]
) -> list[Problem]:
    problems: list[Problem] = []

    def add_problem(name: str, hint: str) -> None:
        problems.append(rule_problem(source, f"@{name} cannot be {annotations[name] or ''!r}", hint, at=f"@{name}"))

    if "approval" in annotations and annotations["approval"] not in APPROVAL_KINDS:
        add_problem("approval", f"one of: {', '.join(APPROVAL_KINDS)}")
    if "approvers" in annotations and not _parse_approvers(annotations["approvers"] or ""):
        add_problem("approvers", "name them as role:NAME, group:NAME or user:NAME, with commas between")
    quorum = annotations.get("quorum") or "1"
    if "quorum" in annotations and not (quorum.isascii() and quorum.isdigit() and 1 <= int(quorum) <= MAX_QUORUM):
        add_problem("quorum", f"a number from 1 to {MAX_QUORUM}")
    if "four_eyes" in annotations and annotations["four_eyes"] not in ("yes", "no"):
        add_problem("four_eyes", "yes or no")
    if "remember" in annotations and annotations["remember"] not in REMEMBER_LIMITS:
        add_problem("remember", f"one of: {', '.join(REMEMBER_LIMITS)}")
    if misplaced := [name for name in _APPROVAL_ANNOTATIONS if name in annotations and "approval" not in annotations]:
        hint = f"say which: @approval({APPROVAL_KINDS[2]!r})".replace("'", '"')
        problems.append(rule_problem(source, f"@{misplaced[0]} stands without @approval", hint, at=f"@{misplaced[0]}"))
    if annotations.get("approval") in ("confirmation", "consent"):
        hint = 'only the person that the call is for answers it; write @approval("action") to have others asked'
        problems += [
            rule_problem(source, f"@{name} has no effect on a {annotations['approval']}", hint, at=f"@{name}")
            for name in ("approvers", "quorum", "four_eyes")
            if name in annotations
        ]
    for_one_call = annotations.get("approval") in ("consent", "action", "gate")
    if for_one_call and annotations.get("remember") in ("tool", "plugin"):
        hint = 'it is approved for one call; write @approval("confirmation") for an answer that lasts'
        message = f"@remember has no effect on a request of kind {annotations['approval']}"
        problems.append(rule_problem(source, message, hint, at="@remember"))
    if "approval" in annotations and not can_be_approved(policy):
        hint = 'forbid "callUnattended" alone, or permit "call" alone: then an approval makes the difference'
        problems.append(rule_problem(source, "@approval has no effect here", hint, at="@approval"))
    return problems


def can_be_approved(policy: Mapping[str, Any]) -> bool:
    """Return whether a person's approval could allow a call that the rule, in Cedar's JSON format, decides."""
    action = cast("dict[str, Any]", policy["action"])
    action_id = "callUnattended" if policy["effect"] == "forbid" else "call"
    return action["op"] == "==" and action.get("entity", {}).get("id") == action_id


def _parse_approvers(text: str) -> list[str]:
    """Parse the list of approvers; empty if any of them is invalid."""
    names = [name.strip() for name in text.split(",")]
    return names if all(_APPROVER.fullmatch(name) for name in names) else []
