"""Users of this machine: what they are called, and what to do about a place of ours that belongs to another."""

from __future__ import annotations

import os
import pwd
import shlex
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=64)  # asking takes as long as the rest of a small request
def user_name(uid: int) -> str:
    """The login name of a user of this machine, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def become(owner: int) -> str:
    """The beginning of a line that runs a command as somebody; `sudo` takes those without a name by their number."""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"#{owner}"
    return f"sudo -u {shlex.quote(name)}"


def mend_owner(owner: int, path: Path, user: int | None = None) -> str:
    """The hint for whoever found it.

    Root is never told to take over what is somebody's: that would lock its owner out. What root left behind in
    somebody's home, by a `sudo` too many, is theirs to take.
    """
    user = os.geteuid() if user is None else user
    if user and not owner:
        return f"sudo chown -R {user} {shlex.quote(str(path))}"
    return f"run it as user {owner}: {become(owner)} paddock …; or keep a place of your own: export PADDOCK_HOME=/…"
