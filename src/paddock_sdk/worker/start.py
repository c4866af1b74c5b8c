"""From the host's orders to a worker that serves."""

from __future__ import annotations

import gc
import os
import sys

from paddock_sdk.framing import take_stdio
from paddock_sdk.log import Log
from paddock_sdk.wire import Wire
from paddock_sdk.worker.load_plugin import load_worker
from paddock_sdk.worker.worker import NAMESPACE
from paddock_sdk.worker.worker_config import CONFIG_VARIABLE, read_worker_config


def start() -> None:
    """Load the plugin and serve until the host says goodbye. One that cannot be loaded ends with 1 and says why."""
    try:
        orders = read_worker_config(os.environ.pop(CONFIG_VARIABLE, ""))
    except ValueError as error:
        print(
            f"this program is started by the host, which tells it in {CONFIG_VARIABLE} what to do: {error}",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    lines = take_stdio()  # first: what a plugin prints while it is loaded belongs to the log
    log = Log(orders.name, os.environ.get("PADDOCK_LOG_LEVEL", "info"))
    wire = Wire(lines, log, NAMESPACE)
    # Each way is loaded only where it is used.
    if orders.kind == "agent":
        from paddock_sdk.worker.serve_forked import serve_forked

        serve_forked(orders, wire)
    else:
        from paddock_sdk.worker.serve_sequential import serve_sequential

        worker = load_worker(orders, log)
        # What is loaded stays: a collection then touches none of it.
        gc.collect()
        gc.freeze()
        serve_sequential(worker, wire)
