"""Every callable of a plugin, imported and made, in the form of the plugin's dialect."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from paddock_sdk.log import Log
from paddock_sdk.worker.guard import Guard, refused_names
from paddock_sdk.worker.last_words import last_words
from paddock_sdk.worker.loading import load, set_import_path
from paddock_sdk.worker.orders import Orders
from paddock_sdk.worker.request import Entry
from paddock_sdk.worker.worker import Worker


def load_worker(orders: Orders, log: Log) -> Worker:
    """Load the plugin into this process.

    Raises:
        SystemExit: it cannot be loaded; the log says why.
    """
    os.environ.update(orders.environment)
    set_import_path(orders.root, orders.site)
    Guard(orders.root, refused_names(orders.dialect)).install()
    make = entry_maker(orders)
    try:
        entries = {name: make(name, target, load(target)) for name, target in orders.entrypoints.items()}
        return Worker(orders, entries, log)
    except (Exception, SystemExit) as error:
        print(last_words(error, orders.root), file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def entry_maker(orders: Orders) -> Callable[[str, str, Any], Entry]:
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
