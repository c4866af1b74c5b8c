"""From the host's orders to a worker that serves."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

from paddock_sdk.framing import take_stdio
from paddock_sdk.log import Log
from paddock_sdk.wire import Wire
from paddock_sdk.worker.guard import Guard, refused_names
from paddock_sdk.worker.last_words import last_words
from paddock_sdk.worker.loading import load, set_import_path
from paddock_sdk.worker.orders import VARIABLE, Orders, read_orders
from paddock_sdk.worker.request import Entry
from paddock_sdk.worker.worker import NAMESPACE, Worker


def start() -> None:
    """Load the plugin and serve until the host says goodbye. One that cannot be loaded ends with 1 and says why."""
    try:
        orders = read_orders(os.environ.pop(VARIABLE, ""))
    except ValueError as error:
        print(f"this program is started by the host, which tells it in {VARIABLE} what to do: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    lines = take_stdio()  # first: what a plugin prints while it is loaded belongs to the log
    log = Log(orders.name, os.environ.get("PADDOCK_LOG_LEVEL", "info"))
    set_import_path(orders.root, orders.site)
    Guard(orders.root, refused_names(orders.dialect)).install()
    try:
        worker = Worker(orders, load_entries(orders), log)
    except (Exception, SystemExit) as error:
        print(last_words(error, orders.root), file=sys.stderr, flush=True)
        raise SystemExit(1) from None
    # What is loaded stays: a collection then touches none of it, and the memory of forks stays shared.
    gc.collect()
    gc.freeze()
    serve(worker, Wire(lines, log, NAMESPACE), forks=orders.kind == "agent")


def load_entries(orders: Orders) -> dict[str, Entry]:
    """Every callable of the plugin, imported and made.

    Raises:
        LoadError: an entry point is not there, or cannot be called.
        Exception: whatever the plugin raises on the way.
    """
    return {name: entry_of(orders, name, target, load(target)) for name, target in orders.entrypoints.items()}


def serve(worker: Worker, wire: Wire, *, forks: bool) -> None:
    """Serve in the way that suits the plugin: each way is loaded only where it is used."""
    if forks:
        from paddock_sdk.worker.forks import serve_in_forks

        serve_in_forks(worker, wire)
    else:
        from paddock_sdk.worker.in_turn import serve_in_turn

        serve_in_turn(worker, wire)


def entry_of(orders: Orders, name: str, target: str, found: Any) -> Entry:
    """What an entry point named, in the form of the plugin's dialect.

    Raises:
        LoadError: it cannot be called.
    """
    match orders.dialect:
        case "shu":
            from paddock_sdk.worker.shu import ShuEntry

            return ShuEntry(target, found)
        case "kernel":
            from paddock_sdk.worker.kernel import KernelEntry

            return KernelEntry(target, found, orders.kind)
        case _:
            from paddock_sdk.worker.native import NativeEntry

            return NativeEntry(target, found, name)
