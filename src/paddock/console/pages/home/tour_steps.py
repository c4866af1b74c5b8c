"""The six steps of the tour, and which of them a person has done. Pure.

Actions are read from the ledger. Views are not recorded there; the pages report them.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from paddock.ledger.entry import LedgerEntry


class TourFacts(Struct, frozen=True):
    """What one person has done and seen, as far as the tour needs it."""

    installed: str | None = None
    """The plugin that they installed last."""
    read: bool = False
    ran: bool = False
    saw_denied: bool = False
    denied: str | None = None
    """The denied call that they saw."""
    answered: str | None = None
    """The call whose request they answered last."""
    followed: bool = False


class TourTargets(Struct, frozen=True):
    """What a step can lead to, if it exists at the moment."""

    denied: str | None = None
    """A call that was denied."""
    waiting: str | None = None
    """A request that waits for them."""
    asks: str | None = None
    """What the one who made it is called."""


class TourStep(Struct, frozen=True):
    """One step: what to do, where, and whether it is done."""

    number: int
    title: str
    words: str
    where: str
    done: bool

    def covers_path(self, path: str) -> bool:
        """Return whether a page is where the step is done, or below it."""
        step_path = self.where.partition("?")[0]
        return path == step_path or path.startswith(f"{step_path}/")


class Tour(Struct, frozen=True):
    """The tour as shown on a page."""

    steps: tuple[TourStep, ...]
    here: TourStep | None = None
    """The open step that this page is about, if any."""
    hidden: bool = False
    path: str = "/"
    """Path of this page."""

    @property
    def leads_on(self) -> TourStep | None:
        """The next step, if it is done on another page."""
        return None if self.next is None or self.next.covers_path(self.path) else self.next

    @property
    def done(self) -> int:
        """The number of completed steps."""
        return sum(step.done for step in self.steps)

    @property
    def next(self) -> TourStep | None:
        """The first open step; None if all are done."""
        return next((step for step in self.steps if not step.done), None)


def build_steps(facts: TourFacts, targets: TourTargets) -> tuple[TourStep, ...]:
    """Build the six steps for a person."""
    plugin = f"/plugins/{quote(facts.installed, safe='')}" if facts.installed else "/plugins"
    denied = targets.denied or facts.denied
    steps = (
        (
            "Install a plugin",
            "Pick one of the examples, such as greeter. You see what it does before anything is installed.",
            "/install",
            facts.installed is not None,
        ),
        (
            "Read what it may do",
            "The page of a plugin shows what it runs, what it can reach, and what each tool changes.",
            plugin,
            facts.read,
        ),
        (
            "Run a tool",
            "Enable the plugin, choose one of its tools, and fill in the form. It runs in a cage of its own.",
            plugin,
            facts.ran,
        ),
        (
            "See a denied call, and why",
            "A rule denied this one. The page names the rule, and leads to what would have changed the answer.",
            f"/calls/{quote(denied, safe='')}" if denied else "/ledger?wrong=1",
            facts.saw_denied,
        ),
        (
            f"Answer {targets.asks}’s request" if targets.asks else "Answer a request",
            f"A call{f' by {targets.asks}' if targets.asks else ''} needs approval. Read the request, then approve it.",
            f"/approvals/{quote(targets.waiting, safe='')}" if targets.waiting else "/approvals",
            facts.answered is not None,
        ),
        (
            "Follow it in the ledger",
            "The ledger records the caller, the rule, the approval and the outcome. A later change to it is detected.",
            f"/calls/{quote(facts.answered, safe='')}" if facts.answered else "/ledger",
            facts.followed,
        ),
    )
    return tuple(TourStep(number, *fields) for number, fields in enumerate(steps, 1))


def apply_entries(facts: TourFacts, entries: Iterable[LedgerEntry]) -> TourFacts:
    """Update the facts with a person's ledger entries, oldest first."""
    for entry in entries:
        if entry.type == "plugin.installed":
            facts = replace(facts, installed=entry.plugin)
        elif entry.type == "call.ended":
            denied = entry.facts.get("decision") == "deny"
            facts = replace(
                facts,
                ran=facts.ran or bool(entry.facts.get("success")),
                saw_denied=facts.saw_denied or denied,
                denied=entry.call if denied else facts.denied,
            )
        elif entry.type == "approval.answered" and entry.call is not None:
            facts = replace(facts, answered=entry.call)
    return facts


def mark_plugin_read(facts: TourFacts) -> TourFacts:
    """Update the facts after a plugin's page was viewed."""
    return replace(facts, read=True)


def apply_viewed_call(facts: TourFacts, call: str, entries: Iterable[LedgerEntry]) -> TourFacts:
    """Update the facts after the timeline of a call with these entries was viewed."""
    denied = any(was_denied(entry) for entry in entries)
    return replace(
        facts,
        saw_denied=facts.saw_denied or denied,
        denied=call if denied else facts.denied,
        followed=facts.followed or call == facts.answered,
    )


def was_denied(entry: LedgerEntry) -> bool:
    """Return whether an entry says that the policy denied a call."""
    return entry.type == "call.ended" and entry.facts.get("decision") == "deny"
