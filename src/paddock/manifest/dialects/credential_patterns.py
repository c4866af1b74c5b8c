"""Recognises keys in command arguments and URLs, which do not belong in a manifest.

A false positive costs nothing: the value moves into the configuration and is put back when the server starts. A false
negative shows a key to everybody who reads the plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SECRET_NAME = re.compile(r"key|token|secret|passw|pwd|credential|auth|bearer|cookie|signature|header", re.IGNORECASE)

# None of these backtracks: untrusted text is searched in linear time.
OPTION = re.compile(r"(--?[\w-]+)(?:=(.*))?", re.DOTALL)
# `NAME=value` by itself, behind `-e` without a space, or behind `--env=`.
ASSIGNMENT = re.compile(r"((?:--?[A-Za-z][\w-]*=|-e)?([A-Za-z_][\w.-]*)=)(.+)", re.DOTALL)
HEADER = re.compile(r"([A-Za-z-]+):\s+(.+)", re.DOTALL)
ENVIRONMENT_OPTIONS = frozenset({"-e", "--env"})

_URL_PASSWORD = re.compile(r"(?<=://)([^/?#\s:@]*):([^/?#\s]+)@")
_QUERY_PARAMETER = re.compile(r"(?<=[?&])([^=&#\s]+)=([^&#\s]+)")
_PATH_SEGMENT = re.compile(r"(?<=/)[A-Za-z0-9_-]{24,}+={0,2}(?=[/?#\s]|\Z)")
_HTTP_URL = re.compile(r"https?://[^/?#\s]*(/[^?#\s]*)?", re.IGNORECASE)
# Key prefixes of well-known services, which secret scanners use too.
_KNOWN_KEY_FORMATS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:ant|proj|live|test|or|svcacct)-[\w-]{4,}|sk-(?=[\w-]{0,60}[0-9])[\w-]{16,}|[rs]k_(?:live|test)_\w{4,}"
    r"|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}"
    r"|A[KS]IA[0-9A-Z]{12,}|AIza[\w-]{16,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}"
    r"|eyJ[\w-]{8,200}+\.eyJ[\w-]{8,}+\.[\w-]*"
    r")"
)

ExtractValue = Callable[[str, str], str]  # (label, value) -> replacement


def is_secret_name(name: str) -> bool:
    """Whether a name suggests that its value is secret."""
    return _SECRET_NAME.search(name) is not None


def extract_keys(text: str, label: str, extract: ExtractValue) -> str:
    """Move every part of a text that looks like a key; `label` names those without a name of their own."""
    text = _URL_PASSWORD.sub(lambda match: f"{match[1]}:{extract('password', match[2])}@", text)
    text = _QUERY_PARAMETER.sub(
        lambda match: f"{match[1]}={extract(match[1], match[2])}" if is_secret_name(match[1]) else match[0], text
    )
    text = _HTTP_URL.sub(lambda match: extract_random_segments(match[0], extract), text)
    return _KNOWN_KEY_FORMATS.sub(lambda match: extract(label, match[0]), text)


def extract_random_segments(url: str, extract: ExtractValue) -> str:
    """Move random path segments of a URL: whoever knows them has access."""
    return _PATH_SEGMENT.sub(lambda match: extract("path", match[0]) if _looks_random(match[0]) else match[0], url)


def _looks_random(text: str) -> bool:
    digits = sum(character.isdigit() for character in text)
    return digits >= 4 and len(text) - digits >= 4
