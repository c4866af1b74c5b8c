"""Every callable of a plugin, imported and made, in the form of the plugin's dialect."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from paddock_sdk.log import Log
from paddock_sdk.worker.entry_point import LoadError, is_below, load_target, set_import_path
from paddock_sdk.worker.import_guard import ImportGuard, RefusedImport, refused_names
from paddock_sdk.worker.request import Entry
from paddock_sdk.worker.worker import Worker
from paddock_sdk.worker.worker_config import WorkerConfig


def load_error_text(error: BaseException, root: str) -> str:
    """One line where one says it all; else the traceback as Python writes it, of the plugin's own steps."""
    if isinstance(error, LoadError):
        return str(error)
    import traceback  # late: only a failing plugin pays for it

    told = traceback.TracebackException.from_exception(error)
    # What this program did to get there helps nobody.
    own = [step for step in told.stack if is_below(os.path.abspath(step.filename), root)]  # noqa: PTH100
    if isinstance(error, RefusedImport) and own:
        return f"{own[-1].filename.removeprefix(root.rstrip('/') + '/')}, line {own[-1].lineno}: {error}"
    told.stack[:] = own
    return "".join(told.format(chain=False)).rstrip()


def load_worker(orders: WorkerConfig, log: Log) -> Worker:
    """Load the plugin into this process.

    Raises:
        SystemExit: it cannot be loaded; the log says why.
    """
    os.environ.update(orders.environment)
    set_import_path(orders.root, orders.site)
    ImportGuard(orders.root, refused_names(orders.dialect)).install()
    make = entry_factory(orders)
    try:
        entries = {name: make(name, target, load_target(target)) for name, target in orders.entrypoints.items()}
        return Worker(orders, entries, log)
    except (Exception, SystemExit) as error:
        print(load_error_text(error, orders.root), file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def entry_factory(orders: WorkerConfig) -> Callable[[str, str, Any], Entry]:
    """Makes a callable of the plugin's dialect from its name, its entry point and what that named.

    It raises LoadError where that cannot be called.
    """
    match orders.dialect:
        case "shu":
            from paddock_sdk.worker.shu import ShuEntry

            return lambda _name, target, found: ShuEntry(target, found)
        case "kernel":
            from paddock_sdk.worker.kernel import KernelEntry

            return lambda _name, target, found: KernelEntry(target, found, orders.kind)
        case _:
            from paddock_sdk.worker.native import NativeEntry

            return lambda name, target, found: NativeEntry(target, found, name)
