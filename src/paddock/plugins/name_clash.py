"""Names that are too close: two plugins must never be taken for each other."""

from __future__ import annotations

import re

from paddock.core.errors import Conflict
from paddock.manifest.model import Dialect, Manifest
from paddock.plugins.registry import BUILT_IN_ALIASES
from paddock.plugins.rows import all_aliases, all_plugins, find_plugin
from paddock.store.database import Transaction


def refuse_name_clash(tx: Transaction, manifest: Manifest) -> None:
    """Two plugins must never be taken for each other.

    Raises:
        Conflict: the name is an alias of another, looks like another's, or another title has the same id.
    """
    name = manifest.name
    if name in all_aliases(tx):
        raise Conflict(
            f"{name!r} is an alias of {all_aliases(tx)[name]}",
            code="plugin.name_taken",
            hint=f"remove it first: paddock plugin alias {name} --remove",
        )
    if BUILT_IN_ALIASES.get(name) is not None and find_plugin(tx, BUILT_IN_ALIASES[name]):
        raise Conflict(
            f"{name!r} is another name of {BUILT_IN_ALIASES[name]}, which is installed",
            code="plugin.name_taken",
            hint="uninstall one of them",
        )
    for other in all_plugins(tx):
        if other.name == name:
            if other.title and manifest.title and other.title != manifest.title and manifest.dialect is Dialect.OSQR:
                raise Conflict(
                    f"{manifest.title!r} has the same id as the installed {other.title!r}",
                    code="plugin.name_taken",
                    hint="ask its author for another name, or uninstall the other one first",
                )
        elif _skeleton(other.name) == _skeleton(name):
            raise Conflict(
                f"{name!r} could be taken for {other.name!r}, which is installed",
                code="plugin.name_confusable",
                hint="uninstall the other one first, or ask the author for another name",
            )


def _skeleton(name: str) -> str:
    """A name without what the eye skips over: separators, case, and letters that look like others."""
    plain = re.sub(r"[-_.]", "", name.lower()).replace("rn", "m").replace("vv", "w")
    return plain.translate(str.maketrans("10i5", "lols"))
