"""Installed plugins: whether their files are the ones that a person consented to, and whether one was given up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.errors import PaddockError
from paddock.doctor.check import STORE_WAIT, Check, Status
from paddock.manifest.flags import Flag

if TYPE_CHECKING:
    from paddock.plugins.plugin_store import PluginStore

_WHY = "A plugin whose files changed never loads."
_WHY_ODD = "Models act on what they read there. It is a hint and no verdict: look at the words."
_PRESSING = (Flag.HIDDEN_CHARACTERS, Flag.HIDDEN_TEXT, Flag.HIDDEN_INSTRUCTIONS, Flag.SHADOWING)
_MOST = 10


def check_plugins(directories: Directories, settings: Settings | None) -> Check:
    """Look at every installed plugin as `plugin list` does, without waiting long for whoever holds the store."""
    # Imported here: only a machine with plugins needs it.
    from paddock.plugins.listing import State, list_plugins
    from paddock.plugins.mending import mend_and_enable
    from paddock.plugins.opening import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _unknown("the settings have to be mended first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("plugins", Status.OK, "none are installed")
        with open_plugin_store(directories, settings, wait=STORE_WAIT) as store:
            listed = list_plugins(store)
            odd = _odd_words(store, [one.plugin.name for one in listed if one.state is State.ENABLED])
    except PaddockError as error:
        return _unknown(error.message)
    modified = [one.plugin.name for one in listed if one.state is State.MODIFIED]
    given_up = {one.plugin.name: one.given_up for one in listed if one.given_up}
    reasons = tuple(f"{name} was given up: it {why}" for name, why in given_up.items())[:_MOST]
    if modified:
        found = f"{len(modified)} of {len(listed)} modified: {', '.join(modified)}"
        fix = " && ".join(f"paddock plugin repair {name}" for name in modified[:_MOST])
        return Check("plugins", Status.WARN, found, _WHY, fix, "plugin.modified", reasons)
    if given_up:
        found = f"{len(given_up)} of {len(listed)} failed too often and were disabled: {', '.join(given_up)}"
        first = next(iter(given_up))
        why = f"It is not started again until a person sees to it: {mend_and_enable(first)}."
        return Check("plugins", Status.WARN, found, why, f"paddock plugin logs {first}", "plugin.failed", reasons)
    if odd:
        found = f"{len(odd)} of {len(listed)} say something odd to models: {', '.join(odd)}"
        told = tuple(line for lines in odd.values() for line in lines)[:_MOST]
        fix = f"paddock plugin tools {next(iter(odd))}"
        return Check("plugins", Status.WARN, found, _WHY_ODD, fix, "plugin.flagged", (*reasons, *told))
    return Check("plugins", Status.OK, f"{len(listed)} installed, each as you consented to it")


def _odd_words(store: PluginStore, names: Iterable[str]) -> dict[str, list[str]]:
    """Of plugins that may run: what nobody should leave unread. Names that others have too are no trouble."""
    from paddock.plugins.definitions.tools import tools_of

    found: dict[str, list[str]] = {}
    for name in names:
        told = [f"{name}: {hint}" for hint in tools_of(store, name).hints() if hint.flag in _PRESSING]
        if told:
            found[name] = told
    return found


def _unknown(reason: str) -> Check:
    return Check("plugins", Status.WARN, f"could not be looked at: {reason}", _WHY)
