"""Asking a person, on the terminal: the consent screen, the question, and each new capability by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.cli.output import ask, interactive, say, styled
from paddock.core.errors import NeedsConsent, OperatorError
from paddock.core.printable import printable
from paddock.manifest.asked import asked_of
from paddock.manifest.capability import BadCapability, Capability, covers, dangerous, describe, parse
from paddock.manifest.model import Manifest
from paddock.plugins.consent import Screen


def show_screen(screen: Screen) -> None:
    """The consent screen, on stderr."""
    say(styled(printable(screen.heading), "bold"))
    for label, value in screen.facts:
        say(f"  {styled(label.ljust(12), 'dim')} {printable(value, 400)}")
    for section in screen.sections:
        say()
        say(f"  {styled(section.title, 'cyan')}")
        for line in section.lines:
            text = printable(line, 400)
            say(f"    • {styled(text, 'yellow') if line in section.alarming else text}")
    say()


def confirm(question: str, *, yes: bool, retype: str, details: Mapping[str, Any] | None = None) -> None:
    """A person's yes to the whole.

    Raises:
        NeedsConsent: there is nobody to ask, or they said no.
    """
    if yes:
        return
    if not interactive():
        hint = f"there is no terminal to ask on; if you agree: {retype} --yes"
        raise NeedsConsent(question, hint=hint, details=details)
    if not ask(question):
        raise NeedsConsent("you said no, and nothing was changed", code="consent_refused")


def parse_grants(texts: Sequence[str], flag: str = "--grant") -> list[Capability]:
    """Capabilities that were named on the command line.

    Raises:
        OperatorError: one of them is no capability.
    """
    try:
        return [parse(text) for text in texts]
    except BadCapability as error:
        raise OperatorError(f"{flag}: {error.message}", code="capability.malformed", hint=error.hint) from None


def require_asked(grants: Sequence[str], manifest: Manifest, otherwise: str) -> None:
    """Refuse a yes to what a plugin does not ask for: it would change nothing, and look as if it had.

    Args:
        grants: Capabilities that were named on the command line.
        manifest: What the plugin asks for.
        otherwise: The way to give it more.

    Raises:
        OperatorError: one of them is asked for by nobody, or is no capability.
    """
    unasked = [one for one in parse_grants(grants) if not any(covers(asked, one) for asked in asked_of(manifest))]
    if unasked:
        raise OperatorError(
            f"{manifest.name} {manifest.version} does not ask for {', '.join(map(str, unasked))}; nothing was changed",
            code="capability.not_asked",
            hint=otherwise,
        )


def acknowledge(new: Sequence[Capability], named: Sequence[Capability], retype: str) -> list[Capability]:
    """A yes to each new capability by itself: they widen the fence, so the answer to the whole does not count.

    Raises:
        NeedsConsent: one was refused, or there is nobody to ask.
    """
    missing = [capability for capability in new if capability not in named]
    if missing and not interactive():
        raise NeedsConsent(
            f"it asks for new capabilities: {', '.join(map(str, missing))}",
            hint=f"if you agree to each of them: {retype} --yes",
            details={"capabilities": [str(capability) for capability in missing]},
        )
    for capability in missing:
        warning = styled("DANGEROUS ", "red", "bold") if dangerous(capability) else ""
        if not ask(f"{warning}Also allow it to {describe(capability)} ({capability})?"):
            raise NeedsConsent(f"you did not grant {capability}, and nothing was changed", code="consent_refused")
    return list(new)


def accept_trust(lost: str, *, accepted: bool, retype: str) -> None:
    """A yes of its own where fewer or other people stand behind a new version than behind the installed one.

    Raises:
        NeedsConsent: it was refused, or there is nobody to ask.
    """
    if not lost or accepted:
        return
    if not interactive():
        raise NeedsConsent(lost, code="trust_lost", hint=f"if you accept that: {retype} --yes")
    if not ask(f"{styled('TRUST', 'red', 'bold')} {printable(lost, 400)}. Go on?"):
        raise NeedsConsent("you kept the version you trust, and nothing was changed", code="consent_refused")
