"""Places of a machine where credentials lie, known by their names alone: a manifest is judged without its machine.

The list is short and of what nearly every machine has. A place that is not on it can still hold a secret.
"""

from __future__ import annotations

import re

_HOST_KEYS_TEXT = "private keys of this machine"
_PADDOCK_TEXT = "what Paddock keeps for itself, secrets of plugins too"

# From the root of the machine.
_SYSTEM_PATHS: tuple[tuple[str, str], ...] = (
    ("etc/shadow", "the passwords of this machine's users"),
    ("etc/shadow-", "the passwords of this machine's users"),
    ("etc/gshadow", "the passwords of this machine's groups"),
    ("etc/gshadow-", "the passwords of this machine's groups"),
    ("etc/sudoers", "who may act as root"),
    ("etc/sudoers.d", "who may act as root"),
    ("etc/ssl/private", _HOST_KEYS_TEXT),
    ("etc/pki/tls/private", _HOST_KEYS_TEXT),
)
# In anybody's home, and homes can be anywhere.
_HOME_PATHS: tuple[tuple[str, str], ...] = (
    (".ssh", "keys to other machines"),
    (".gnupg", "keys that sign and decrypt"),
    (".aws", "keys to Amazon Web Services"),
    (".azure", "keys to Azure"),
    (".config/gcloud", "keys to Google Cloud"),
    (".kube", "keys to Kubernetes clusters"),
    (".docker", "passwords of container registries"),
    (".netrc", "passwords of web services"),
    (".pgpass", "passwords of databases"),
    (".git-credentials", "passwords of git servers"),
    (".password-store", "passwords"),
    (".local/share/keyrings", "passwords"),
    (".config/paddock", _PADDOCK_TEXT),
    (".local/share/paddock", _PADDOCK_TEXT),
    (".local/state/paddock", _PADDOCK_TEXT),
)
_SSH_HOST_KEY = re.compile(r"/etc/ssh/ssh_host_\w+_key")
_HISTORY = re.compile(r"\.\w+_history|fish_history")
_HOME_DIRECTORIES = re.compile(r"/root|(/var)?/home(/[^/]+)?")


def credentials_at(path: str) -> str:
    """Which credentials lie at an absolute path, below it or around it, in words; empty where none are known to.

    Args:
        path: Without `..` and without a slash at its end, as capabilities have them.
    """
    steps = tuple(step for step in path.split("/") if step)
    if not steps:
        return "everything, passwords and keys too"
    if _HOME_DIRECTORIES.fullmatch(path):
        return "all that people keep at home, passwords and keys too"
    if _SSH_HOST_KEY.fullmatch(path):
        return _HOST_KEYS_TEXT
    if _HISTORY.fullmatch(steps[-1]):
        return "commands that somebody typed, often with passwords"
    for place, words in _SYSTEM_PATHS:
        if _overlaps(steps, tuple(place.split("/"))):
            return words
    for place, words in _HOME_PATHS:
        if any(_overlaps(steps[start:], tuple(place.split("/"))) for start in range(len(steps))):
            return words
    return ""


def _overlaps(steps: tuple[str, ...], place: tuple[str, ...]) -> bool:
    """Whether one of two paths lies at or below the other."""
    shared = min(len(steps), len(place))
    return steps[:shared] == place[:shared]
