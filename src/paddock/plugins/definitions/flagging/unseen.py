"""Text that stands in a definition and not before anybody's eyes, without a single odd character. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from paddock.manifest.flags import Flag
from paddock.plugins.definitions.flagging.orders import Found

LONGEST = 20_000  # characters of one text that are looked through, and that anybody would read
# Each begins where a run begins, so that no text makes the search go over the same place twice.
_PATTERNS = (
    ("stands in a comment, which is not shown", re.compile(r"<!--.{3}.{0,200}|\[//\]: ?# ?[\"(].{0,200}", re.DOTALL)),
    (
        "is styled so that it does not show",
        re.compile(r"(?:display|visibility|font-size|opacity):\s{0,9}(?:none|hidden|0\b)", re.IGNORECASE),
    ),
    ("stands far to the right, out of view", re.compile(r"(?<![ \t\u00a0\u3000])[ \t\u00a0\u3000]{50,}+(?=\S)")),
    ("stands far below, out of view", re.compile(r"(?:\A|(?<=\S))[ \t]*+\n(?:[ \t]*+\n){12,}+[ \t]*+(?=\S)")),
    (
        "would steer a terminal, where one shows it",
        re.compile(r"\\(?:x1b|033|u001b|e)\[[0-9;]{0,20}[a-zA-Z]", re.IGNORECASE),
    ),
    (
        "shows a picture from elsewhere, which learns what is put into its address",
        re.compile(r"!\[[^\]]{0,100}\]\(https?:"),
    ),
)


def unseen_in(text: str) -> Iterator[Found]:
    """What a text keeps out of view, each sort at most once. The text is as it came: room is what counts."""
    for why, pattern in _PATTERNS:
        if found := pattern.search(text, 0, LONGEST):
            yield Found(Flag.HIDDEN_TEXT, why, found.start(), found.end())
    if len(text) > LONGEST:
        why = f"is {len(text):,} characters long, and was looked through up to {LONGEST:,}"
        yield Found(Flag.HIDDEN_TEXT, why, LONGEST, LONGEST)
