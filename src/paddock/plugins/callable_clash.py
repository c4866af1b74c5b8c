"""Full names that two plugins would share: whoever is enabled later does not get to take another's calls."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.core.errors import Conflict
from paddock.core.events_host import PluginToolNameCollision
from paddock.manifest.model import Manifest
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import manifest_of
from paddock.plugins.rows import all_grants, current_versions


def refuse_callable_clash(store: PluginStore, manifest: Manifest) -> None:
    """Refuse to enable a plugin beside one that has a callable of the same full name already.

    Raises:
        Conflict: names the first such plugin; the clash is recorded.
    """
    versions, grants = store.database.read(lambda tx: (current_versions(tx), all_grants(tx, store.tenant)))
    ours = set(full_names(manifest))
    for name, row in sorted(versions.items()):
        grant = grants.get(name)
        if name == manifest.name or grant is None or not grant.enabled:
            continue
        # Only then can the two have a full name in common, and most manifests need not be read.
        if not (name.startswith(f"{manifest.name}.") or manifest.name.startswith(f"{name}.")):
            continue
        for clash in sorted(ours & set(full_names(manifest_of(row)))):
            event = PluginToolNameCollision(first=name, second=manifest.name, tool=clash)
            store.database.write(lambda tx, event=event: store.publish(tx, event))
            raise Conflict(
                f"{name} has a callable that is called {clash} already",
                code="tool_name_collision",
                hint=f"disable one of them: paddock plugin disable {name}",
                details={"first": name, "second": manifest.name, "tool": clash},
            )


def full_names(manifest: Manifest) -> Iterator[str]:
    """What the plugin's callables are called: always after their plugin."""
    for spec in manifest.callables:
        yield f"{manifest.name}.{spec.name}"
    if manifest.whole is not None:
        yield manifest.name
