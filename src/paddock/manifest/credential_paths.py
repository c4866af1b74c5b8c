"""Well-known paths of credentials, and of files that run outside of every cage, recognised by name alone: a manifest is
judged without access to the machine.

The lists are short and cover what nearly every machine has. Other paths can hold secrets too.
"""

from __future__ import annotations

import re

_HOST_KEYS_TEXT = "private keys of this machine"
_PADDOCK_TEXT = "what Paddock keeps for itself, secrets of plugins too"

_AI_CLIENTS_TEXT = "keys of AI clients and their servers"

# Relative to the root directory.
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
# In any home directory; home directories can be anywhere.
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
    (".claude.json", _AI_CLIENTS_TEXT),
    (".claude", _AI_CLIENTS_TEXT),
    (".config/Claude", _AI_CLIENTS_TEXT),
    (".cursor/mcp.json", _AI_CLIENTS_TEXT),
    (".codex", _AI_CLIENTS_TEXT),
    (".gemini", _AI_CLIENTS_TEXT),
    (".codeium", _AI_CLIENTS_TEXT),
    (".config/paddock", _PADDOCK_TEXT),
    (".local/share/paddock", _PADDOCK_TEXT),
    (".local/state/paddock", _PADDOCK_TEXT),
)
# Whoever can write there has programs run without a cage.
_SYSTEM_PROGRAMS = (
    *("bin", "sbin", "lib", "lib64", "usr/bin", "usr/sbin", "usr/lib", "usr/local", "boot"),
    *("etc/cron.d", "etc/cron.daily", "etc/cron.hourly", "etc/crontab", "var/spool/cron"),
    *("etc/systemd", "etc/init.d", "etc/profile", "etc/profile.d", "etc/bash.bashrc", "etc/xdg/autostart"),
    *("etc/ld.so.preload", "etc/ld.so.conf.d", "etc/pam.d", "etc/udev"),
)
_HOME_PROGRAMS = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile"),
    *(".config/fish", ".config/autostart", ".config/systemd", ".config/environment.d", ".local/bin"),
    *(".xprofile", ".xsession", ".gitconfig", ".config/git", ".vimrc", ".config/nvim", ".emacs.d"),
    *(".config/Code/User", ".config/VSCodium/User", ".config/zed", ".cursor"),
)
_SSH_HOST_KEY = re.compile(r"/etc/ssh/ssh_host_\w+_key")
_HISTORY = re.compile(r"\.\w+_history|fish_history")
_HOME_DIRECTORIES = re.compile(r"/root|(/var)?/home(/[^/]+)?")


def is_whole_home(path: str) -> bool:
    """Whether an absolute path is a whole home directory, contains all homes, or is the root directory."""
    return path == "/" or _HOME_DIRECTORIES.fullmatch(path) is not None


def credentials_at(path: str) -> str:
    """Describe the credentials at, below or above an absolute path; empty if none are known.

    Args:
        path: Without `..` and without a trailing slash, as capabilities have them.
    """
    parts = tuple(part for part in path.split("/") if part)
    if not parts:
        return "everything, passwords and keys too"
    if _HOME_DIRECTORIES.fullmatch(path):
        return "all that people keep at home, passwords and keys too"
    if _SSH_HOST_KEY.fullmatch(path):
        return _HOST_KEYS_TEXT
    if _HISTORY.fullmatch(parts[-1]):
        return "commands that somebody typed, often with passwords"
    for known_path, text in _SYSTEM_PATHS:
        if _overlaps(parts, tuple(known_path.split("/"))):
            return text
    for known_path, text in _HOME_PATHS:
        if any(_overlaps(parts[start:], tuple(known_path.split("/"))) for start in range(len(parts))):
            return text
    return ""


def runs_outside(path: str) -> bool:
    """Whether files at, below or above an absolute path are run by a person's programs or by the machine."""
    parts = tuple(part for part in path.split("/") if part)
    return any(_overlaps(parts, tuple(known.split("/"))) for known in _SYSTEM_PROGRAMS) or any(
        _overlaps(parts[start:], tuple(known.split("/"))) for known in _HOME_PROGRAMS for start in range(len(parts))
    )


def _overlaps(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether one of two paths equals or contains the other."""
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]
