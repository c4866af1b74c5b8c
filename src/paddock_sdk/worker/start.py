"""Starts a worker from the host's configuration."""

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
    """Load the plugin and serve until the host disconnects. If loading fails, exit with 1 and log the reason."""
    try:
        config = read_worker_config(os.environ.pop(CONFIG_VARIABLE, ""))
    except ValueError as error:
        print(
            f"this program is started by the host, which tells it in {CONFIG_VARIABLE} what to do: {error}",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    lines = take_stdio()  # first: output of the plugin while it loads belongs to the log
    log = Log(config.name, os.environ.get("PADDOCK_LOG_LEVEL", "info"))
    wire = Wire(lines, log, NAMESPACE)
    # Each serving mode is imported only if it is used.
    if config.kind == "agent":
        from paddock_sdk.worker.serve_forked import serve_forked

        serve_forked(config, wire)
    else:
        from paddock_sdk.worker.serve_sequential import serve_sequential

        worker = load_worker(config, log)
        # Loaded modules stay for ever, so garbage collection should skip them.
        gc.collect()
        gc.freeze()
        serve_sequential(worker, wire)
