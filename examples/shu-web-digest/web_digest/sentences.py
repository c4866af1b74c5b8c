"""Choosing the sentences that say most: those whose words the page uses most."""

from __future__ import annotations

import re
from collections import Counter

from plaintext import read_html

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"[^\W\d_]{4,}")  # shorter words are mostly glue


def title_of(html: str) -> str:
    return read_html(html).title


def summarize(html: str, count: int) -> list[str]:
    """At most `count` sentences of a page, in the order in which they stand there."""
    sentences = [
        sentence for block in read_html(html).blocks for sentence in _SENTENCE.split(block) if _WORD.search(sentence)
    ]
    weight = Counter(word for sentence in sentences for word in _words(sentence))

    def worth(index: int) -> float:
        words = _words(sentences[index])
        # The average, so that a long sentence does not win by its length.
        return sum(weight[word] for word in words) / len(words)

    best = sorted(range(len(sentences)), key=worth, reverse=True)[:count]
    return [sentences[index] for index in sorted(best)]


def _words(sentence: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(sentence)]
