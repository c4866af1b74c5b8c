"""What a person typed to import servers."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct


class ImportTerms(Struct, frozen=True):
    """What the person typed."""

    capability: tuple[str, ...]
    grant: tuple[str, ...]
    file: Path | None
    names: tuple[str, ...]
    clients: tuple[str, ...]
    all_: bool
    replace: bool
    yes: bool
    paths: str | None  # how far the places that settings name are granted; None: ask
    tries: bool | None  # whether each server is tried; None: ask

    def retype(self, *names: str) -> str:
        """Return the command to type again, without consent."""
        words = ["paddock", "import", *([shlex.quote(str(self.file))] if self.file else [])]
        words += ["--all"] if self.all_ and not names else []
        options = [("client", name) for name in self.clients] + [("only", name) for name in names or self.names]
        options += [("capability", text) for text in self.capability]
        options += [("paths", self.paths)] if self.paths else []
        return " ".join([*words, *(f"--{option} {shlex.quote(text)}" for option, text in options)])
