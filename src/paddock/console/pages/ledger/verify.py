"""The ledger verification page: runs the chain verification, and explains its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.page import Page, render_page
from paddock.console.templates import HtmlFragment, StreamEnd, render_fragment
from paddock.core.errors import HostError
from paddock.core.ids import Tenant
from paddock.core.printable import count_text
from paddock.host.host import Host
from paddock.host.ledger.verification import Verification
from paddock.ledger.chain.verifier import ChainFinding, ChainVerdict
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR
from paddock.web.sse import event_stream

_TITLES: Final[dict[ChainVerdict, str]] = {
    "sound": "Nothing was changed",
    "tampered": "The ledger was tampered with",
    "truncated": "Entries are missing at the end",
    "unreadable": "It could not be verified",
}
_MEANINGS: Final[dict[ChainVerdict, str]] = {
    "sound": "Every entry is unchanged, and none is missing between the first and the last.",
    "tampered": "An entry was changed, removed or inserted. The entries before it are unchanged.",
    "truncated": "Entries at the end of the chain are missing. The remaining entries are unchanged.",
    "unreadable": "It is unknown whether entries were changed. Fix the cause, then verify again.",
}
_NEXT_STEPS: Final[dict[ChainVerdict, str]] = {
    "sound": "",
    "tampered": "Keep a copy of the database and of the checkpoint files as they are now, before anyone repairs"
    " anything, and find out who could write to them.",
    "truncated": "Keep a copy of the database and of the checkpoint files as they are now. A backup that holds more"
    " entries shows what is missing.",
    "unreadable": "",
}

_VERIFY_PATH = "/ledger/verify"


class VerifyPages:
    """Starts verifications, and shows their progress and verdict."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def routes(self) -> list[Page]:
        return [
            Page("GET", _VERIFY_PATH, self.show, OPERATOR),
            Page("POST", _VERIFY_PATH, self.start, OPERATOR),
            Page("GET", f"{_VERIFY_PATH}/progress", self.stream, OPERATOR),
        ]

    async def show(self, request: Request) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        verification = self._host.ledger.verification.latest(tenant)
        try:
            checkpoint, unreadable = await self._host.ledger.verification.last_checkpoint(tenant), ""
        except (HostError, OSError) as error:
            checkpoint, unreadable = None, str(error)
        values = _verification_values(verification) | {"checkpoint": checkpoint, "unreadable": unreadable}
        return render_page(request, "ledger/verify.html", values)

    async def start(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        self._host.ledger.verification.start(context.tenant, context.principal.id)
        return RedirectResponse(_VERIFY_PATH, 303)

    async def stream(self, request: Request) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        return event_stream(self._fragments(tenant), self._closing)

    async def _fragments(self, tenant: Tenant) -> AsyncGenerator[HtmlFragment | StreamEnd, None]:
        async with aclosing(self._host.ledger.verification.watch(tenant)) as changes:
            async for verification in changes:
                yield render_fragment("ledger/verify_state.html", _verification_values(verification))
        yield StreamEnd()


class VerdictText(Struct, frozen=True):
    """A verdict in words."""

    title: str
    mood: Literal["good", "bad", "busy"]
    meaning: str
    what: str
    next: str
    notes: tuple[str, ...]


def build_verdict_text(finding: ChainFinding) -> VerdictText:
    """Describe a finding in words."""
    if finding.empty:
        meaning = "The chain begins with the first thing that happens."
        return VerdictText("Nothing was recorded yet", "good", meaning, "", "", ())
    location = f"Entry {finding.seq:,}: " if finding.seq is not None else ""
    what = f"{location}{finding.what}" if finding.what else ""
    mood: Literal["good", "bad", "busy"] = "good" if finding.verdict == "sound" else "bad"
    if finding.verdict == "unreadable":
        mood = "busy"
    return VerdictText(
        _TITLES[finding.verdict],
        mood,
        _MEANINGS[finding.verdict],
        what,
        _NEXT_STEPS[finding.verdict],
        tuple(_notes(finding)) if finding.verdict == "sound" else (),
    )


def _notes(finding: ChainFinding) -> list[str]:
    if not finding.checkpoints:
        notes = [
            f"{_entry_count_text(finding.rows)} were checked. Nothing is signed yet, so only the chain itself tells."
        ]
    else:
        checkpoints = count_text(finding.checkpoints, "checkpoint")
        notes = [f"{_entry_count_text(finding.rows)} and {checkpoints} were checked."]
    if finding.unsigned and finding.checkpoints:
        verb = "is" if finding.unsigned == 1 else "are"
        notes.append(
            f"{_entry_count_text(finding.unsigned)} since the last checkpoint {verb} chained, and not signed yet."
        )
    if finding.erased:
        notes.append(f"Personal data was erased from {_entry_count_text(finding.erased)}, as the ledger records.")
    if len(finding.keys) > 1:
        notes.append(f"{len(finding.keys)} keys signed one after the other: {', '.join(finding.keys)}.")
    return notes


def _entry_count_text(number: int) -> str:
    return count_text(number, "entry", "entries")


def _verification_values(verification: Verification | None) -> dict[str, Any]:
    finding = verification.finding if verification else None
    return {
        "verification": verification,
        "over": verification is None or verification.finished,
        "verdict": None if finding is None else build_verdict_text(finding),
    }
