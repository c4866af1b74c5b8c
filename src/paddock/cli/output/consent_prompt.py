"""Asking a person, on the terminal: the consent screen, the question, and each new capability by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.cli.output.report import ask_yes_no, is_interactive, print_message, styled
from paddock.core.errors import NeedsConsent, OperatorError
from paddock.core.printable import printable
from paddock.manifest.capability import (
    Capability,
    InvalidCapability,
    covers,
    describe_capability,
    is_dangerous,
    parse_capability,
)
from paddock.manifest.model import Manifest
from paddock.manifest.permissions import requested_capabilities
from paddock.plugins.install.consent_screen import ConsentScreen


def print_consent_screen(screen: ConsentScreen) -> None:
    """The consent screen, on stderr."""
    print_message(styled(printable(screen.heading), "bold"))
    for label, value in screen.facts:
        print_message(f"  {styled(label.ljust(12), 'dim')} {printable(value, 400)}")
    for section in screen.sections:
        print_message()
        print_message(f"  {styled(section.title, 'cyan')}")
        for line in section.lines:
            text = printable(line, 400)
            print_message(f"    • {styled(text, 'yellow') if line in section.alarming else text}")
    print_message()


def confirm(question: str, *, yes: bool, retype: str, details: Mapping[str, Any] | None = None) -> None:
    """A person's yes to the whole.

    Raises:
        NeedsConsent: there is nobody to ask, or they said no.
    """
    if yes:
        return
    if not is_interactive():
        hint = f"there is no terminal to ask on; if you agree: {retype} --yes"
        raise NeedsConsent(question, hint=hint, details=details)
    if not ask_yes_no(question):
        raise NeedsConsent("you said no, and nothing was changed", code="consent_refused")


def parse_grants(texts: Sequence[str], flag: str = "--grant") -> list[Capability]:
    """Capabilities that were named on the command line.

    Raises:
        OperatorError: one of them is no capability.
    """
    try:
        return [parse_capability(text) for text in texts]
    except InvalidCapability as error:
        raise OperatorError(f"{flag}: {error.message}", code="capability.malformed", hint=error.hint) from None


def check_grants_requested(grants: Sequence[str], manifest: Manifest, otherwise: str) -> None:
    """Refuse a yes to what a plugin does not ask for: it would change nothing, and look as if it had.

    Args:
        grants: Capabilities that were named on the command line.
        manifest: What the plugin asks for.
        otherwise: The way to give it more.

    Raises:
        OperatorError: one of them is asked for by nobody, or is no capability.
    """
    unasked = [
        one for one in parse_grants(grants) if not any(covers(asked, one) for asked in requested_capabilities(manifest))
    ]
    if unasked:
        raise OperatorError(
            f"{manifest.name} {manifest.version} does not ask for {', '.join(map(str, unasked))}; nothing was changed",
            code="capability.not_asked",
            hint=otherwise,
        )


def confirm_new_capabilities(new: Sequence[Capability], named: Sequence[Capability], retype: str) -> list[Capability]:
    """A yes to each new capability by itself: they widen the fence, so the answer to the whole does not count.

    Raises:
        NeedsConsent: one was refused, or there is nobody to ask.
    """
    missing = [capability for capability in new if capability not in named]
    if missing and not is_interactive():
        raise NeedsConsent(
            f"it asks for new capabilities: {', '.join(map(str, missing))}",
            hint=f"if you agree to each of them: {retype} --yes",
            details={"capabilities": [str(capability) for capability in missing]},
        )
    for capability in missing:
        warning = styled("DANGEROUS ", "red", "bold") if is_dangerous(capability) else ""
        if not ask_yes_no(f"{warning}Also allow it to {describe_capability(capability)} ({capability})?"):
            raise NeedsConsent(f"you did not grant {capability}, and nothing was changed", code="consent_refused")
    return list(new)


def confirm_lower_trust(lost: str, *, accepted: bool, retype: str) -> None:
    """A yes of its own where fewer or other people stand behind a new version than behind the installed one.

    Raises:
        NeedsConsent: it was refused, or there is nobody to ask.
    """
    if not lost or accepted:
        return
    if not is_interactive():
        raise NeedsConsent(lost, code="trust_lost", hint=f"if you accept that: {retype} --yes")
    if not ask_yes_no(f"{styled('TRUST', 'red', 'bold')} {printable(lost, 400)}. Go on?"):
        raise NeedsConsent("you kept the version you trust, and nothing was changed", code="consent_refused")
