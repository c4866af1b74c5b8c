"""The outcome of a dry run as text for a terminal, from what the API returns. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paddock.core.error_formats import EXIT_CODES, EXIT_OK
from paddock.core.errors import Category
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.gate.dry_run import ApprovalNeededJson, DryRunJson, DryRunOutcome

_OUTCOME_TEXT: Final[dict[DryRunOutcome, str]] = {
    "run": "would run",
    "wait_for_approval": "would wait for a person",
    "be_denied": "would be denied",
    "be_rejected": "would be refused",
}
_EXIT_CODES: Final[dict[DryRunOutcome, int]] = {
    "run": EXIT_OK,
    "wait_for_approval": EXIT_OK,
    "be_denied": EXIT_CODES[Category.POLICY],
    "be_rejected": EXIT_CODES[Category.VALIDATION],
}


def dry_run_exit_code(outcome: DryRunJson) -> int:
    """Return the exit code: that of the call, if it would fail before it reaches the plugin."""
    return _EXIT_CODES[outcome["would"]]


def dry_run_lines(outcome: DryRunJson) -> list[str]:
    """Format the outcome: the first line says what would happen, the others say why."""
    name = f"{printable(outcome['plugin'])}.{printable(outcome['callable'])}"
    effects = ", ".join(printable(effect) for effect in outcome["effects"]) or "none declared"
    words = "; ".join(printable(text) for text in outcome["does"])
    rules = ", ".join(printable(rule) for rule in outcome["policies"])
    lines = [
        f"{name} {printable(outcome['version'])} {_OUTCOME_TEXT[outcome['would']]}. Nothing ran.",
        f"  rules     {outcome['decision']}: {printable(outcome['reason'], 600)}" + (f" ({rules})" if rules else ""),
        f"  effects   {effects}" + (f": {words}" if words else ""),
    ]
    if outcome["approval"] is not None:
        lines.append(f"  approval  {_approval_text(outcome['approval'])}")
    lines += [
        f"  params    {printable(problem['path'] or '(document)')}: {printable(problem['message'], 400)}"
        for problem in outcome["problems"]
    ]
    if not outcome["problems"]:
        fit = "fit the schema" if outcome["schema_known"] else "not checked: the server has never listed its schemas"
        lines.append(f"  params    {fit}")
    if outcome["missing_secrets"]:
        lines.append(f"  secrets   not set: {', '.join(printable(name) for name in outcome['missing_secrets'])}")
    return lines


def _approval_text(approval: ApprovalNeededJson) -> str:
    if approval["standing"] is not None:
        return f"given already by {printable(approval['standing'])}"
    who = " or ".join(printable(one) for one in approval["approvers"]) or "the person the call is for"
    count = f"{approval['quorum']} of " if approval["quorum"] > 1 else ""
    other = ", not by the caller" if approval["four_eyes"] and approval["approvers"] else ""
    return f"{approval['kind']}, answered by {count}{who}{other}"
