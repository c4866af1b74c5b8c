"""The tour: six steps through the console, and which of them somebody has taken. Pure.

What was done is read from the ledger. What was looked at stands nowhere, since a look is no event; whoever shows pages
says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote

from paddock.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class TourFacts:
    """What one person has done and seen so far, as far as the tour goes."""

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


@dataclass(frozen=True, slots=True)
class TourTargets:
    """What a step can lead to, where there is such a thing right now."""

    denied: str | None = None
    """A call that was denied."""
    waiting: str | None = None
    """A request that waits for them."""
    asks: str | None = None
    """Whose it is, as in `user:robin`."""


@dataclass(frozen=True, slots=True)
class TourStep:
    """One step: what to do, where, and whether it was done."""

    number: int
    title: str
    words: str
    where: str
    done: bool

    def covers_path(self, path: str) -> bool:
        """Whether a page is where it is done, or further along from there."""
        place = self.where.partition("?")[0]
        return path == place or path.startswith(f"{place}/")


@dataclass(frozen=True, slots=True)
class Tour:
    """The tour as somebody sees it on a page."""

    steps: tuple[TourStep, ...]
    here: TourStep | None = None
    """The step that is about this page, where one is that was not done before."""
    hidden: bool = False
    path: str = "/"
    """Of this page."""

    @property
    def leads_on(self) -> TourStep | None:
        """The next step, where it is done somewhere else."""
        return None if self.next is None or self.next.covers_path(self.path) else self.next

    @property
    def done(self) -> int:
        """How many steps are."""
        return sum(step.done for step in self.steps)

    @property
    def next(self) -> TourStep | None:
        """The first that is not; none when all are."""
        return next((step for step in self.steps if not step.done), None)


def build_steps(facts: TourFacts, around: TourTargets) -> tuple[TourStep, ...]:
    """The six of them, for somebody with these facts."""
    plugin = f"/plugins/{quote(facts.installed, safe='')}" if facts.installed else "/plugins"
    denied = around.denied or facts.denied
    asker = around.asks.removeprefix("user:").capitalize() if around.asks else None
    told = (
        (
            "Install a plugin",
            "Pick one of the examples, such as greeter. You see what it will do before anything of it is installed.",
            "/install",
            facts.installed is not None,
        ),
        (
            "Read what it may do",
            "A plugin’s page says what it runs, what it can reach, and what each of its tools changes.",
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
            "A rule said no to this one. The page names the rule, and leads to what would have changed the answer.",
            f"/ledger/{quote(denied, safe='')}" if denied else "/ledger?wrong=1",
            facts.saw_denied,
        ),
        (
            f"Answer {asker}’s request" if asker else "Answer a request",
            f"{asker or 'Somebody'} wants to do something that needs a person’s yes. Read all of it, then approve it.",
            f"/approvals/{quote(around.waiting, safe='')}" if around.waiting else "/approvals",
            facts.answered is not None,
        ),
        (
            "Follow it in the ledger",
            "Who asked, which rule, who said yes, what happened: it is all there, and cannot be changed unnoticed.",
            f"/ledger/{quote(facts.answered, safe='')}" if facts.answered else "/ledger",
            facts.followed,
        ),
    )
    return tuple(TourStep(number, *one) for number, one in enumerate(told, 1))


def apply_entries(facts: TourFacts, entries: Iterable[LedgerEntry]) -> TourFacts:
    """What is known after these entries too, oldest first, all of what this person did."""
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
    """What is known after they opened the page of a plugin."""
    return replace(facts, read=True)


def apply_viewed_call(facts: TourFacts, call: str, entries: Iterable[LedgerEntry]) -> TourFacts:
    """What is known after they opened the story of a call, which has these entries."""
    denied = any(was_denied(entry) for entry in entries)
    return replace(
        facts,
        saw_denied=facts.saw_denied or denied,
        denied=call if denied else facts.denied,
        followed=facts.followed or call == facts.answered,
    )


def was_denied(entry: LedgerEntry) -> bool:
    """Whether an entry says that the rules denied a call."""
    return entry.type == "call.ended" and entry.facts.get("decision") == "deny"
