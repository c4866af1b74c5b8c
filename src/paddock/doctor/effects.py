"""Calls with effects: whether there are some of which nobody knows whether they have happened."""

from __future__ import annotations

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.errors import PaddockError
from paddock.doctor.check import STORE_WAIT, Check, Status

_WHY = "Nobody makes such a call again under its key before somebody has found out, a daemon or a person."


def check_effects(directories: Directories, settings: Settings | None) -> Check:
    """Count what is in doubt, without waiting long for whoever holds the store."""
    # Imported here: only a machine with plugins needs it.
    from paddock.gate.effects.records import in_doubt_of_each
    from paddock.plugins.mending import for_tenant
    from paddock.plugins.opening import open_plugin_store
    from paddock.store.database import embedded_path

    if settings is None:
        return _unknown("the settings have to be mended first")
    try:
        path = embedded_path(settings.store.url or directories.database_file)
        if path is not None and not path.is_file():
            return Check("effects", Status.OK, "nothing is in doubt")
        with open_plugin_store(directories, settings, wait=STORE_WAIT) as store:
            found = store.database.read(in_doubt_of_each)
    except PaddockError as error:
        return _unknown(error.message)
    if not found:
        return Check("effects", Status.OK, "nothing is in doubt")
    count = sum(found.values())
    lines = tuple(f"{tenant}: {of:,}" for tenant, of in sorted(found.items())) if len(found) > 1 else ()
    return Check(
        "effects",
        Status.WARN,
        f"{'1 call' if count == 1 else f'{count:,} calls'} may have happened, and nobody knows",
        _WHY,
        "; ".join(f"paddock run doubt list{for_tenant(tenant)}" for tenant in sorted(found)),
        "effect.in_doubt",
        lines,
    )


def _unknown(reason: str) -> Check:
    return Check("effects", Status.WARN, f"could not be looked at: {reason}", _WHY)
