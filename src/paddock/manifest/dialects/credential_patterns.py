"""What looks like a key in a command's arguments or in an address, and so does not belong into a manifest.

Taking too much costs a person nothing: the value moves into their configuration and is put back when the server
starts. Taking too little shows a key to everybody who reads the plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SECRET_NAME = re.compile(r"key|token|secret|passw|pwd|credential|auth|bearer|cookie|signature|header", re.IGNORECASE)

# None of these reads far ahead and then begins anew: a stranger's text is searched in one go.
OPTION = re.compile(r"(--?[\w-]+)(?:=(.*))?", re.DOTALL)
# `NAME=value` by itself, behind `-e` without a space, or behind `--env=`.
ASSIGNMENT = re.compile(r"((?:--?[A-Za-z][\w-]*=|-e)?([A-Za-z_][\w.-]*)=)(.+)", re.DOTALL)
HEADER = re.compile(r"([A-Za-z-]+):\s+(.+)", re.DOTALL)
ENVIRONMENT_OPTIONS = frozenset({"-e", "--env"})

_URL_PASSWORD = re.compile(r"(?<=://)([^/?#\s:@]*):([^/?#\s]+)@")
_QUERY_PARAMETER = re.compile(r"(?<=[?&])([^=&#\s]+)=([^&#\s]+)")
_PATH_SEGMENT = re.compile(r"(?<=/)[A-Za-z0-9_-]{24,}+={0,2}(?=[/?#\s]|\Z)")
_HTTP_URL = re.compile(r"https?://[^/?#\s]*(/[^?#\s]*)?", re.IGNORECASE)
# How well-known services begin their keys, so that they and their scanners can tell.
_KNOWN_KEY_FORMATS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:ant|proj|live|test|or|svcacct)-[\w-]{4,}|sk-(?=[\w-]{0,60}[0-9])[\w-]{16,}|[rs]k_(?:live|test)_\w{4,}"
    r"|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}"
    r"|A[KS]IA[0-9A-Z]{12,}|AIza[\w-]{16,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}"
    r"|eyJ[\w-]{8,200}+\.eyJ[\w-]{8,}+\.[\w-]*"
    r")"
)

ExtractValue = Callable[[str, str], str]  # (a label, the value) to what stands in its place


def is_secret_name(name: str) -> bool:
    """Whether a name says that its value is secret."""
    return _SECRET_NAME.search(name) is not None


def extract_keys(text: str, label: str, move: ExtractValue) -> str:
    """A text with every part that looks like a key moved; `label` is for those that have no name of their own."""
    text = _URL_PASSWORD.sub(lambda found: f"{found[1]}:{move('password', found[2])}@", text)
    text = _QUERY_PARAMETER.sub(
        lambda found: f"{found[1]}={move(found[1], found[2])}" if is_secret_name(found[1]) else found[0], text
    )
    text = _HTTP_URL.sub(lambda found: extract_random_segments(found[0], move), text)
    return _KNOWN_KEY_FORMATS.sub(lambda found: move(label, found[0]), text)


def extract_random_segments(address: str, move: ExtractValue) -> str:
    """An address with the parts of its path moved that nobody would have thought of: whoever has them gets in."""
    return _PATH_SEGMENT.sub(lambda found: move("path", found[0]) if _looks_random(found[0]) else found[0], address)


def _looks_random(text: str) -> bool:
    digits = sum(character.isdigit() for character in text)
    return digits >= 4 and len(text) - digits >= 4
