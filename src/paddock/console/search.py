"""What the search of the console finds: hits, their order and their number. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from msgspec import Struct

MAX_QUERY_CHARS: Final = 100
MAX_HITS_PER_GROUP: Final = 8
_MAX_TERMS: Final = 8
_ID: Final = re.compile(r"(call|apr|inst|pol)_[0-9a-z]{6,64}")
_ID_PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "call": ("Call", "/calls/"),
    "apr": ("Approval", "/approvals/"),
    "inst": ("Installation", "/install/"),
    "pol": ("Version of the rules", "/policy/versions/"),
}


class SearchHit(Struct, frozen=True):
    """One thing that was found.

    Attributes:
        title: Its name, which people search for.
        detail: What it is, in a few words; searched too.
        path: Its page.
        at: When it was, if it happened at a time.
        also: What else finds it, and is not shown.
    """

    title: str
    detail: str
    path: str
    at: str = ""
    also: str = ""


class SearchGroup(Struct, frozen=True):
    """The hits of one kind, the best first.

    Attributes:
        label: What they are.
        hits: The best of them.
        more: Whether there are more.
        rank: How well the best one matches; smaller is better.
    """

    label: str
    hits: tuple[SearchHit, ...]
    more: bool
    rank: int = 0


class SearchQuery(Struct, frozen=True):
    """A search: all terms have to occur.

    Attributes:
        text: As it was typed, cut to a bounded length.
        terms: Its words in lower case.
    """

    text: str
    terms: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> SearchQuery:
        text = text.strip()[:MAX_QUERY_CHARS]
        return cls(text, tuple(text.lower().split()[:_MAX_TERMS]))

    def rank(self, title: str, detail: str = "") -> int | None:
        """Return how well something matches; None if it does not. Smaller is better."""
        name, whole = title.lower(), " ".join(self.terms)
        text = f"{name} {detail.lower()}"
        if not all(term in text for term in self.terms):
            return None
        if name == whole:
            return 0
        if name.startswith(whole):
            return 1
        words = re.split(r"[^\w]+|_", name)
        if all(any(word.startswith(term) for word in words) for term in self.terms):
            return 2
        return 3 if all(term in name for term in self.terms) else 4

    def best(self, label: str, hits: Iterable[SearchHit]) -> SearchGroup:
        """Return the hits that match, the best first."""
        ranked = [
            (rank, hit.title, hit)
            for hit in hits
            if (rank := self.rank(hit.title, f"{hit.detail} {hit.also}")) is not None
        ]
        ranked.sort(key=lambda one: one[:2])
        found = tuple(hit for _, _, hit in ranked[:MAX_HITS_PER_GROUP])
        return SearchGroup(label, found, len(ranked) > MAX_HITS_PER_GROUP, ranked[0][0] if ranked else 0)

    def named_by_id(self) -> SearchHit | None:
        """Return the page of the thing whose id was typed; None if it is no id of a thing with a page."""
        text = self.text.lower()
        match = _ID.fullmatch(text)
        if match is None:
            return None
        label, root = _ID_PAGES[match[1]]
        return SearchHit(text, label, root + quote(text, safe=""))
