"""The readable text of an HTML page: a small library of ours, carried along as a plugin carries its dependencies."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

SILENT = {"script", "style", "template", "noscript"}
BLOCKS = {"p", "div", "li", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6", "article", "section", "br", "blockquote"}


class Page(NamedTuple):
    """A page's title, and its text block by block."""

    title: str
    blocks: tuple[str, ...]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.blocks: list[list[str]] = [[]]
        self._in_title = False
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs  # a page's text does not depend on them
        if tag == "title":
            self._in_title = True
        elif tag in SILENT:
            self._silent += 1
        elif tag in BLOCKS:
            self.blocks.append([])

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in BLOCKS:
            self.blocks.append([])

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._silent:
            self.blocks[-1].append(data)


def read_html(html: str) -> Page:
    """The title and the text of a page; broken markup is read as well as it can be."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    blocks = (" ".join("".join(parts).split()) for parts in reader.blocks)
    return Page(" ".join("".join(reader.title).split()), tuple(block for block in blocks if block))
