"""Consent prompts at the terminal: the consent screen, its question, and each new capability separately."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paddock.cli.output.report import ask_yes_no, is_interactive, print_message, styled
from paddock.core.errors import NeedsConsent, OperatorError
from paddock.core.printable import printable
from paddock.manifest.capability import (
    Capability,
    InvalidCapability,
    describe_capability,
    is_dangerous,
    parse_capability,
)

if TYPE_CHECKING:
    from paddock.manifest.rules.dangers import DangerJson
    from paddock.plugins.install.consent_screen import ConsentScreenJson


def print_consent_screen(screen: ConsentScreenJson) -> None:
    """Print the consent screen on stderr, its dangerous permissions first."""
    print_message(styled(printable(screen["heading"]), "bold"))
    if dangers := screen["dangers"]:
        count = "1 dangerous permission" if len(dangers) == 1 else f"{len(dangers)} dangerous permissions"
        print_message(f"  {styled(count, 'red', 'bold')}")
        for danger in dangers:
            means = printable(danger["means"], 400)
            print_message(f"    {styled('!', 'red', 'bold')} {printable(danger['capability'], 400)} — {means}")
            print_message(f"      {printable(danger['reason'], 400)}")
        print_message()
    for label, value in screen["facts"].items():
        print_message(f"  {styled(label.ljust(12), 'dim')} {printable(value, 400)}")
    for section in screen["sections"]:
        print_message()
        print_message(f"  {styled(section['title'], 'cyan')}")
        for line in section["lines"]:
            text = printable(line, 400)
            print_message(f"    • {styled(text, 'yellow') if line in section['alarming'] else text}")
    print_message()


def confirm(question: str, *, yes: bool, retype: str, details: Mapping[str, Any] | None = None) -> None:
    """Ask for consent to the whole.

    Raises:
        NeedsConsent: there is no terminal to ask on, or the person declined.
    """
    if yes:
        return
    if not is_interactive():
        hint = f"there is no terminal to ask on; if you agree: {retype} --yes"
        raise NeedsConsent(question, hint=hint, details=details)
    if not ask_yes_no(question):
        raise NeedsConsent("you declined; nothing was changed", code="consent_refused")


def confirm_or_edit(
    question: str, edit: str, *, yes: bool, retype: str, details: Mapping[str, Any] | None = None
) -> bool:
    """Ask for consent to the whole, where a person may also edit it first. Returns whether they consented.

    Raises:
        NeedsConsent: there is no terminal to ask on, or the person declined.
    """
    if yes or not is_interactive():
        confirm(question, yes=yes, retype=retype, details=details)
        return True
    print_message(edit)
    sys.stderr.write(f"{question} [y/e/N] ")
    sys.stderr.flush()
    match sys.stdin.readline().strip().lower():
        case "y" | "yes":
            return True
        case "e" | "edit":
            return False
        case _:
            raise NeedsConsent("you declined; nothing was changed", code="consent_refused")


def parse_grants(texts: Sequence[str], flag: str = "--grant") -> list[Capability]:
    """Parse the capabilities named on the command line.

    Raises:
        OperatorError: one of them is not a capability.
    """
    try:
        return [parse_capability(text) for text in texts]
    except InvalidCapability as error:
        raise OperatorError(f"{flag}: {error.message}", code="capability.malformed", hint=error.hint) from None


def confirm_new_capabilities(
    new: Sequence[Capability], granted: Sequence[Capability], retype: str, dangers: Sequence[DangerJson] = ()
) -> list[Capability]:
    """Ask for each capability separately: consent to the whole covers none that is dangerous or widens the cage.

    Args:
        new: The capabilities to ask for.
        granted: Those that the person named on the command line.
        retype: The command to type again, without `--yes`.
        dangers: The dangerous ones of them, with the reasons.

    Raises:
        NeedsConsent: one was declined, or there is no terminal to ask on.
    """
    missing = [capability for capability in new if capability not in granted]
    reasons = {danger["capability"]: danger["reason"] for danger in dangers}
    if missing and not is_interactive():
        unnamed = [danger for danger in dangers if danger["capability"] in map(str, missing)]
        kind = "dangerous permissions, which --yes alone does not cover" if unnamed else "new capabilities"
        raise NeedsConsent(
            f"it asks for {kind}: {', '.join(map(str, missing))}",
            code="consent.dangers" if unnamed else "",
            hint=f"if you agree to each of them: {retype} --yes",
            details={"capabilities": [str(capability) for capability in missing]}
            | ({"dangers": unnamed} if unnamed else {}),
        )
    for capability in missing:
        reason = reasons.get(str(capability), "")
        warning = styled("DANGEROUS ", "red", "bold") if reason or is_dangerous(capability) else ""
        warning += f"{reason} " if reason else ""
        if not ask_yes_no(f"{warning}Also allow it to {describe_capability(capability)} ({capability})?"):
            raise NeedsConsent(f"you did not grant {capability}, and nothing was changed", code="consent_refused")
    return list(new)


def confirm_lower_trust(trust_loss: str, *, accepted: bool, retype: str) -> None:
    """Ask separately where a new version has fewer or other signers than the installed one.

    Raises:
        NeedsConsent: it was declined, or there is no terminal to ask on.
    """
    if not trust_loss or accepted:
        return
    if not is_interactive():
        raise NeedsConsent(trust_loss, code="trust_lost", hint=f"if you accept that: {retype} --yes")
    if not ask_yes_no(f"{styled('TRUST', 'red', 'bold')} {printable(trust_loss, 400)}. Go on?"):
        raise NeedsConsent("you kept the version you trust, and nothing was changed", code="consent_refused")
