"""What a secret may be called: where it is set, in manifests that declare it, and in files that refer to it. Pure."""

from __future__ import annotations

import re

LONGEST = 128
# Names come from strangers' manifests and stand in commands that people are told to type: what a shell would take for
# something else, or a command for an option, is in none of them.
_INSIDE = r"A-Za-z0-9_.:/@+%~-"
PATTERN = rf"[A-Za-z0-9_][{_INSIDE}]{{0,{LONGEST - 1}}}"
ALLOWED = f"up to {LONGEST} letters, digits and . _ - : / @ + % ~, the first of them a letter, a digit or _"

_NAME = re.compile(PATTERN)
_OTHER = re.compile(rf"[^{_INSIDE}]")
_OF_PLUGINS = "plugin/"


def possible(name: str) -> bool:
    """Whether a secret can have this name."""
    return _NAME.fullmatch(name) is not None


def fitting(name: str) -> str:
    """The name with another character for each that no name has."""
    return _OTHER.sub("_", name)


def prefix_of(plugin: str) -> str:
    """How the names of the keys begin that a plugin is configured with."""
    return f"{_OF_PLUGINS}{plugin}/"


def is_configuration(name: str) -> bool:
    """Whether it is such a key: it reaches the plugin in its configuration, and nobody who asks for it by name."""
    return name.startswith(_OF_PLUGINS)
