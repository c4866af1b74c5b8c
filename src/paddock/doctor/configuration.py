"""What plugins are configured with: whether every variable and secret that it refers to is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.errors import PaddockError, Problem
from paddock.doctor.check import STORE_WAIT, Check, Status
from paddock.doctor.daemon import AskDaemon

if TYPE_CHECKING:
    from paddock.plugins.plugin_store import PluginStore

_MOST = 10
_VARIABLE = "config.variable_unset"
_WHY = "A plugin does not start with a configuration that refers to what is not set."


def check_configuration(
    directories: Directories, settings: Settings | None, environ: Mapping[str, str], ask: AskDaemon | None
) -> Check:
    """Look at the configuration of every enabled plugin, of all tenants. Nothing is opened."""
    # Imported here: only a machine with plugins needs it.
    from paddock.plugins.opening import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _unknown("the settings have to be mended first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("configuration", Status.OK, "no plugin has any")
        with open_plugin_store(directories, settings, wait=STORE_WAIT) as store:
            problems = _unset(store, environ)
    except PaddockError as error:
        return _unknown(error.message)
    if ask is not None and any(one.code == _VARIABLE for one in problems) and _runs(directories, ask):
        # A daemon has variables of its own, and says by itself which plugin does not run.
        problems = [one for one in problems if one.code != _VARIABLE]
    if not problems:
        return Check("configuration", Status.OK, "refers to nothing that is not set")
    found = str(problems[0]) if len(problems) == 1 else f"refers to {len(problems)} things that are not set"
    fix = "; ".join(dict.fromkeys(one.hint for one in problems[:_MOST]))
    details = tuple(map(str, problems)) if len(problems) > 1 else ()
    return Check("configuration", Status.WARN, found, _WHY, fix, problems[0].code, details)


def _unset(store: PluginStore, environ: Mapping[str, str]) -> list[Problem]:
    from paddock.config.local import read_entries
    from paddock.plugins.rows import grants_of_all
    from paddock.plugins.unset_references import unset_references

    found: list[Problem] = []
    for tenant, theirs in store.database.read(grants_of_all).items():
        own = store.of(tenant)
        for name, entry in read_entries(own.values_file).items():
            if name in theirs and theirs[name].enabled:
                found += [one for field in unset_references(own, entry, environ).values() for one in field]
    return found


def _runs(directories: Directories, ask: AskDaemon) -> bool:
    try:
        return ask(directories) is not None
    except PaddockError:
        return True  # one that does not answer, which is a finding of its own


def _unknown(reason: str) -> Check:
    return Check("configuration", Status.WARN, f"could not be looked at: {reason}", _WHY)
