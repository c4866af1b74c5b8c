"""Advice that was written for whoever runs a plugin, in words for the one who writes it and has it running here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from paddock.plugins.supervision.diagnosis import see_its_log

_OF_SOMEBODY_ELSE = "the plugin's author has to "


def for_its_author(hint: str, plugin: str) -> str:
    """The same advice: what its author has to do is the reader's to do, and its log is shown where they look."""
    if hint.startswith(_OF_SOMEBODY_ELSE):
        return f"{hint.removeprefix(_OF_SOMEBODY_ELSE)}, and save"
    if hint == see_its_log(plugin):
        return "see what it wrote to its log, which is shown here"
    return hint


def how_to_give(secrets: Iterable[str]) -> str:
    """What to type so that the plugin has these secrets: it runs in a home of its own, where nobody set any."""
    return "start it again with " + " ".join(f"--secret {shlex.quote(name)}=@FILE" for name in secrets)
