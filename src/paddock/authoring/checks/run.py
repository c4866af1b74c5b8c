"""All checks of one plugin, in sequence, against one real run of it in its cage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from paddock.authoring.checks import protocol
from paddock.authoring.checks.kernel_contract import check_kind
from paddock.authoring.checks.plugin_under_test import (
    CallableUnderTest,
    CheckResult,
    CheckVerdict,
    PluginUnderTest,
    check_calls,
    declared_callables,
    failed,
)
from paddock.core.errors import PaddockError
from paddock.host.dev.dev_host import DevHost
from paddock.host.dev.snapshot import SourceSnapshot
from paddock.host.learn.trial_run import TrialRun
from paddock.host.plugins.tool_records import parse_tool
from paddock.manifest.effects import Claim, Effect, claim_of
from paddock.manifest.model import CallableSpec, PythonRuntime, Schema
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.store.lookup import load_schema
from paddock.rpc.errors import PeerLost, RpcError

# Receives each result as it is made.
ReportCheckResult: TypeAlias = Callable[[CheckResult], None]

DESCRIBE_TIMEOUT_S = 10.0
_CHECKS_AFTER_HANDSHAKE = ("configuration", "ping", "unknown method", "shutdown", "standard output")


async def run_checks(
    dev_host: DevHost, snapshot: SourceSnapshot, report: ReportCheckResult, *, effects: bool
) -> list[CheckResult]:
    """Run all checks and return their results, in order.

    Args:
        dev_host: Runs the plugin.
        snapshot: The plugin.
        report: Called with each result as it is made.
        effects: Whether callables with effects are called too.
    """
    results: list[CheckResult] = []

    def record(*new_results: CheckResult) -> None:
        for result in (replace(result, why=dev_host.with_author_paths(result.why)) for result in new_results):
            results.append(result)
            report(result)

    try:
        async with dev_host.trial_run(snapshot, snapshot.manifest.capabilities) as run:
            await _run_all_checks(run, snapshot, record, effects=effects)
    except PaddockError as error:
        record(failed("start", error.message, error.hint))
    return results


async def _run_all_checks(
    run: TrialRun, snapshot: SourceSnapshot, record: Callable[..., None], *, effects: bool
) -> None:
    handshake_results = await protocol.check_handshake(run)
    record(*handshake_results)
    if handshake_results[0].verdict is CheckVerdict.FAIL:
        record(*protocol.skip_checks(_CHECKS_AFTER_HANDSHAKE))
        return
    record(await protocol.check_config(run), await protocol.check_ping(run), await protocol.check_unknown_method(run))
    try:
        callables = await _find_callables(run, snapshot)
    except (RpcError, TimeoutError, PeerLost) as error:
        record(failed("what it offers", f"it did not say: {error}"))
    else:
        subject = PluginUnderTest(run.manifest, run, callables, effects)
        record(*await check_calls(subject))
        record(*await check_kind(subject))
    record(await protocol.check_shutdown(run), protocol.check_output(run))


async def _find_callables(run: TrialRun, snapshot: SourceSnapshot) -> tuple[CallableUnderTest, ...]:
    """Return what can be called: from the manifest, the worker's code, or the server."""
    manifest = run.manifest
    if is_mcp_server(manifest):
        parsed = [parse_tool(item.raw) for item in await run.definitions() or () if item.kind == "tool"]
        specs = [item for item in parsed if isinstance(item, CallableSpec)]
        return tuple(
            CallableUnderTest(spec, spec.input_schema, spec.output_schema, _declared_effects(spec)) for spec in specs
        )
    described: Mapping[str, Mapping[str, Any]] = {}
    if isinstance(manifest.runtime, PythonRuntime):
        described = await _describe_worker(run)
    schemas = {
        spec.name: (
            _resolve_schema(spec.input_schema, snapshot, described, spec.name, "input_schema"),
            _resolve_schema(spec.output_schema, snapshot, described, spec.name, "output_schema"),
        )
        for spec in manifest.callables
    }
    return declared_callables(manifest, schemas)


def _resolve_schema(
    declared: Schema | None, snapshot: SourceSnapshot, described: Mapping[str, Mapping[str, Any]], name: str, side: str
) -> Any:
    """Return the schema from the manifest, or from the worker's code."""
    description: Mapping[str, Any] = described.get(name) or {}
    return load_schema(declared, snapshot.root) or description.get(side) or {}


def _declared_effects(spec: CallableSpec) -> tuple[Effect, ...]:
    """Return the effects of a server's tool: here its author's own claim counts."""
    return (Effect.READ_ONLY,) if claim_of(spec.annotations) is Claim.READS else (Effect.UNKNOWN,)


async def _describe_worker(run: TrialRun) -> Mapping[str, dict[str, Any]]:
    """Return the schemas that a worker's code computes."""
    response = await run.request("worker.describe", {}, DESCRIBE_TIMEOUT_S)
    callables: Any = cast("dict[str, Any]", response).get("callables") if isinstance(response, dict) else {}
    return cast("dict[str, dict[str, Any]]", callables)
