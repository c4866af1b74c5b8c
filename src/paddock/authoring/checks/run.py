"""All checks of one plugin, one after the other, against one real run of it in its cage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

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
from paddock.host.dev.trial_run import TrialRun
from paddock.host.plugins.tool_records import parse_tool
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, PythonRuntime, Schema
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.store.lookup import load_schema
from paddock.rpc.errors import PeerLost, RpcError

# Told of each finding as it is made.
ReportCheckResult: TypeAlias = Callable[[CheckResult], None]

DESCRIBE_TIMEOUT_S = 10.0
_CHECKS_AFTER_HANDSHAKE = ("configuration", "ping", "unknown method", "shutdown", "standard output")


async def run_checks(
    workshop: DevHost, copy: SourceSnapshot, report: ReportCheckResult, *, effects: bool
) -> list[CheckResult]:
    """Every finding, in order.

    Args:
        workshop: What runs the plugin.
        copy: The plugin.
        report: Told meanwhile.
        effects: Whether callables that change something are called too.
    """
    findings: list[CheckResult] = []

    def tell(*found: CheckResult) -> None:
        for one in (replace(one, why=workshop.with_author_paths(one.why)) for one in found):
            findings.append(one)
            report(one)

    try:
        async with workshop.trial_run(copy, copy.manifest.capabilities) as life:
            await _run_all_checks(life, copy, tell, effects=effects)
    except PaddockError as error:
        tell(failed("start", error.message, error.hint))
    return findings


async def _run_all_checks(life: TrialRun, copy: SourceSnapshot, tell: Callable[..., None], *, effects: bool) -> None:
    greeted = await protocol.check_handshake(life)
    tell(*greeted)
    if greeted[0].verdict is CheckVerdict.FAIL:
        tell(*protocol.skip_checks(_CHECKS_AFTER_HANDSHAKE))
        return
    tell(await protocol.check_config(life), await protocol.check_ping(life), await protocol.check_unknown_method(life))
    try:
        callables = await _find_callables(life, copy)
    except (RpcError, TimeoutError, PeerLost) as error:
        tell(failed("what it offers", f"it did not say: {error}"))
    else:
        subject = PluginUnderTest(life.manifest, life, callables, effects)
        tell(*await check_calls(subject))
        tell(*await check_kind(subject))
    tell(await protocol.check_shutdown(life), protocol.check_output(life))


async def _find_callables(life: TrialRun, copy: SourceSnapshot) -> tuple[CallableUnderTest, ...]:
    """What can be called: as the manifest says, or the code, or the server."""
    manifest = life.manifest
    if is_mcp_server(manifest):
        listed = [parse_tool(one.raw) for one in await life.definitions() or () if one.kind == "tool"]
        specs = [one for one in listed if isinstance(one, CallableSpec)]
        return tuple(
            CallableUnderTest(one, one.input_schema, one.output_schema, _declared_effects(one)) for one in specs
        )
    told: Mapping[str, Mapping[str, Any]] = {}
    if isinstance(manifest.runtime, PythonRuntime):
        told = await _describe_worker(life)
    schemas = {
        spec.name: (
            _resolve_schema(spec.input_schema, copy, told, spec.name, "input_schema"),
            _resolve_schema(spec.output_schema, copy, told, spec.name, "output_schema"),
        )
        for spec in manifest.callables
    }
    return declared_callables(manifest, schemas)


def _resolve_schema(
    declared: Schema | None, copy: SourceSnapshot, told: Mapping[str, Mapping[str, Any]], name: str, side: str
) -> Any:
    """As the manifest has it, or the code."""
    own: Mapping[str, Any] = told.get(name) or {}
    return load_schema(declared, copy.root) or own.get(side) or {}


def _declared_effects(spec: CallableSpec) -> tuple[Effect, ...]:
    """What a server's tool does: here the author is asked, and a hint of theirs counts."""
    read_only = spec.annotations.get("readOnlyHint") is True
    return (Effect.READ_ONLY,) if read_only else (Effect.UNKNOWN,)


async def _describe_worker(life: TrialRun) -> Mapping[str, dict[str, Any]]:
    """The schemas that a worker's code computes."""
    answer = await life.request("worker.describe", {}, DESCRIBE_TIMEOUT_S)
    told: Any = cast("dict[str, Any]", answer).get("callables") if isinstance(answer, dict) else {}
    return cast("dict[str, dict[str, Any]]", told)
