"""What `npm ci` gets to install from: a `package.json` and a lock in which nothing but checked pins is left.

npm follows more in a lock than what pins: lists inside of archives (`hasShrinkwrap`), and ranges that name an address
and win over the entry beside them. A package marked as bundled with another is fetched, whatever it is, if it is not.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

from paddock.plugins.environments.lock import Lock
from paddock.plugins.environments.npm_lock import has_hash, pinned_entries, wanted_packages

_ROOT = {"name": "paddock-environment", "version": "0.0.0"}
_KEPT = frozenset(
    {
        *("name", "version", "integrity", "bundleDependencies", "inBundle", "peerDependenciesMeta"),
        *("optional", "peer", "dev", "devOptional", "os", "cpu", "libc", "engines"),
    }
)
_NEEDS = ("dependencies", "optionalDependencies", "peerDependencies")
# No archive has this hash. What lies in the archive of another is not held against it; what is fetched fails.
_NO_ARCHIVE = "sha512-" + base64.b64encode(bytes(64)).decode()


def package_json(lock: Lock) -> str:
    """The `package.json` that belongs to the lock; npm wants both."""
    return json.dumps({**_ROOT, "private": True, "dependencies": wanted_packages(lock)}, indent=1) + "\n"


def project_lock(lock: Lock) -> str:
    """The `package-lock.json` from which npm installs what the lock pins, and can install nothing else."""
    root = {**_ROOT, "dependencies": wanted_packages(lock)}
    packages = {"": root, **{place: _bare(entry) for place, entry in pinned_entries(lock).items()}}
    return json.dumps({**_ROOT, "lockfileVersion": 3, "requires": True, "packages": packages}, indent=1) + "\n"


def _bare(entry: Mapping[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in entry.items() if key in _KEPT}
    if not has_hash(entry):
        bare["integrity"] = _NO_ARCHIVE
    for kind in _NEEDS:
        needs = entry.get(kind)
        if isinstance(needs, dict):
            # Which version fits was decided when the lock was written.
            bare[kind] = dict.fromkeys(cast("dict[str, Any]", needs), "*")
    return bare
