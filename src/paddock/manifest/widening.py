"""Giving a plugin more than its manifest asks for, because the person who installs it says so."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from paddock.manifest.capability import Capability, joined
from paddock.manifest.model import Manifest


def widened(manifest: Manifest, added: Sequence[Capability]) -> Manifest:
    """The manifest with these capabilities too.

    Its version says so: two packages that may do different things are never one version.
    """
    capabilities = joined(manifest.capabilities, added)
    if capabilities == manifest.capabilities:
        return manifest
    digest = hashlib.sha256("\n".join(sorted(map(str, capabilities))).encode()).hexdigest()
    mark = "." if "+" in manifest.version else "+"
    return replace(manifest, version=f"{manifest.version}{mark}{digest[:8]}", capabilities=capabilities)
