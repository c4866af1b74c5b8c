"""Asks a plugin's program for its declarations, by running it in a cage with nothing granted."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, cast

from paddock.authoring.declarations.description import (
    DescribedCallable,
    ProgramDescription,
    parse_callable,
    parse_description,
)
from paddock.authoring.traffic import DevEventReporter
from paddock.core.clock import SystemClock
from paddock.core.errors import Invalid, PluginError, Problem
from paddock.core.printable import printable
from paddock.host.dev.open_dev_host import open_dev_host
from paddock.host.learn.trial_run import TrialRun
from paddock.manifest.model import CallableForm, CommandRuntime, Dialect, Manifest, PythonRuntime
from paddock.rpc.errors import PeerLost, RpcError

DESCRIBE_METHOD = "describe"
DESCRIBE_TIMEOUT_S = 10.0
_NOT_DESCRIBABLE = "not_describable"


def may_describe_itself(manifest: Manifest) -> bool:
    """Whether a manifest is native and its program speaks the native protocol, so that it can be asked."""
    runtime = manifest.runtime
    speaks = isinstance(runtime, PythonRuntime) or (isinstance(runtime, CommandRuntime) and runtime.protocol != "mcp")
    return manifest.dialect is Dialect.NATIVE and speaks


async def describe_program(folder: Path, manifest: Manifest) -> ProgramDescription | None:
    """Run the program of a folder in a cage with nothing granted, and return what it says about itself.

    Returns None for a program that does not describe itself, because it is written without our SDK.

    Raises:
        Invalid: a declaration has no JSON Schema, or states no types.
        PaddockError: it does not run; says why.
    """
    reporter = DevEventReporter(manifest, lambda _event: None, SystemClock())
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    with tempfile.TemporaryDirectory(prefix="paddock-describe-", ignore_cleanup_errors=True) as home:
        opened = open_dev_host(Path(home), folder, reporter, environ=environ, tap=reporter.new_decoder)
        async with opened as dev_host:
            snapshot = await dev_host.take_snapshot()
            async with dev_host.trial_run(snapshot, ()) as run:
                if isinstance(manifest.runtime, PythonRuntime):
                    return await _describe_worker(run)
                return await _describe_command(run)


async def _describe_command(run: TrialRun) -> ProgramDescription | None:
    try:
        return parse_description(await run.request(DESCRIBE_METHOD, {}, DESCRIBE_TIMEOUT_S))
    except RpcError as error:
        data: Any = error.data
        if not isinstance(data, dict) or cast("dict[str, Any]", data).get("code") != _NOT_DESCRIBABLE:
            return None
        raise Invalid(
            "the program's declarations cannot be read",
            [Problem("tools", printable(error.message, 400), code="sync.not_describable")],
            code="sync.not_describable",
        ) from None
    except (PeerLost, TimeoutError) as error:
        message = "the program did not answer" if isinstance(error, TimeoutError) else "the program did not start"
        raise await run.crash_error(message) from None


async def _describe_worker(run: TrialRun) -> ProgramDescription:
    """Ask a worker, which serves exactly the entry points of the manifest and takes its version from there."""
    await run.handshake()
    try:
        answer = await run.request("worker.describe", {}, DESCRIBE_TIMEOUT_S)
    except (RpcError, PeerLost, TimeoutError) as error:
        raise PluginError(f"the program's declarations cannot be read: {error}", code="sync.not_describable") from None
    described: Any = cast("dict[str, Any]", answer).get("callables", {}) if isinstance(answer, dict) else {}
    tools = {spec.name for spec in run.manifest.callables if spec.form is CallableForm.TOOL}
    callables: list[DescribedCallable] = [
        parse_callable("tools", {**cast("dict[str, Any]", entry), "name": name})
        for name, entry in cast("dict[str, Any]", described).items()
        if name in tools and isinstance(entry, dict)
    ]
    return ProgramDescription(run.manifest.name, None, tuple(callables), ("tools",))
