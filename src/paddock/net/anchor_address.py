"""Addresses that the ledger's checkpoints are sent to. Pure.

file:///mnt/other-disk/anchors.jsonl        a file, on another disk
https://example.org/anchors                 a webhook
git+ssh://git@example.org/anchors.git#main  a branch of a git repository; `paddock-anchors` if none is named
rfc3161+https://example.org/tsr             a time stamping authority
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from paddock.core.printable import printable

AnchorKind: TypeAlias = Literal["file", "webhook", "git", "rfc3161"]

DEFAULT_BRANCH = "paddock-anchors"
_GIT_SCHEMES = ("ssh", "https", "http", "file")


class AnchorAddress(Struct, frozen=True):
    """A parsed address. `location` is a path for a file, and a URL for everything else."""

    kind: AnchorKind
    location: str
    name: str
    """For people: the address without a user name, a password or a query."""
    branch: str = ""

    @property
    def id(self) -> str:
        """A short id that stays the same as long as the address does."""
        return sha256(f"{self.kind}\0{self.location}\0{self.branch}".encode()).hexdigest()[:16]


def parse_anchor_address(text: str) -> AnchorAddress:
    """Parse an address.

    Raises:
        ValueError: it has none of the known forms.
    """
    prefix, plus, rest = text.partition("+")
    kind: AnchorKind = "webhook"
    url = text
    if plus and prefix in ("git", "rfc3161"):
        kind, url = ("git" if prefix == "git" else "rfc3161"), rest
    parts = urlsplit(url)
    if not text.isprintable() or not parts.path:
        raise ValueError
    if kind == "webhook" and parts.scheme == "file":
        path = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not PurePosixPath(path).is_absolute() or "\0" in path:
            raise ValueError
        return AnchorAddress("file", path, f"file://{path}")
    if parts.scheme not in (_GIT_SCHEMES if kind == "git" else ("http", "https")):
        raise ValueError
    if not parts.hostname and parts.scheme != "file":
        raise ValueError
    host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    name = f"{'' if kind == 'webhook' else f'{kind}+'}{parts.scheme}://{host}{parts.path}"
    if kind != "git":
        if parts.username or parts.password:
            raise ValueError
        return AnchorAddress(kind, url.partition("#")[0], name)
    branch = parts.fragment or DEFAULT_BRANCH
    if branch.startswith("-") or not all(character.isalnum() or character in "._/-" for character in branch):
        raise ValueError
    return AnchorAddress(kind, url.partition("#")[0], f"{name}#{branch}", branch)


def check_anchor_addresses(value: Sequence[str]) -> str | None:
    """Return the problem when one of these is no address. Its own text may hold a password, so only its start shows."""
    for text in value:
        try:
            parse_anchor_address(text)
        except ValueError:
            start = printable(text.partition("://")[0], 40)
            return (
                f"the address that begins with {start} is neither file:///PATH, https://…, git+ssh://…, git+https://…, "
                "git+file:///PATH nor rfc3161+https://…"
            )
    return None
