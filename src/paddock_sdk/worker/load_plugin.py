"""Loads every callable of a plugin, in the form of the plugin's dialect."""

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
    """Describe a load error: one line where that is enough, else the traceback of the plugin's own frames."""
    if isinstance(error, LoadError):
        return str(error)
    import traceback  # late: only a failing plugin pays for it

    report = traceback.TracebackException.from_exception(error)
    # The worker's own frames do not help the author.
    frames = [frame for frame in report.stack if is_below(os.path.abspath(frame.filename), root)]  # noqa: PTH100
    if isinstance(error, RefusedImport) and frames:
        return f"{frames[-1].filename.removeprefix(root.rstrip('/') + '/')}, line {frames[-1].lineno}: {error}"
    report.stack[:] = frames
    return "".join(report.format(chain=False)).rstrip()


def load_worker(config: WorkerConfig, log: Log) -> Worker:
    """Load the plugin into this process.

    Raises:
        SystemExit: it cannot be loaded; the log says why.
    """
    os.environ.update(config.environment)
    set_import_path(config.root, config.site)
    ImportGuard(config.root, refused_names(config.dialect)).install()
    make_entry = entry_factory(config)
    try:
        entries = {name: make_entry(name, target, load_target(target)) for name, target in config.entrypoints.items()}
        return Worker(config, entries, log)
    except (Exception, SystemExit) as error:
        print(load_error_text(error, config.root), file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def entry_factory(config: WorkerConfig) -> Callable[[str, str, Any], Entry]:
    """Return a function that creates an entry from its name, entry point and loaded object.

    That function raises LoadError if the object cannot be called.
    """
    match config.dialect:
        case "shu":
            from paddock_sdk.worker.shu import ShuEntry

            return lambda _name, target, target_object: ShuEntry(target, target_object)
        case "kernel":
            from paddock_sdk.worker.kernel import KernelEntry

            return lambda _name, target, target_object: KernelEntry(target, target_object, config.kind)
        case _:
            from paddock_sdk.worker.native import NativeEntry

            return lambda name, target, target_object: NativeEntry(target, target_object, name)
