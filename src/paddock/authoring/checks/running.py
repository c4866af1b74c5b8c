"""All checks of one plugin, one after the other, against one real run of it in its cage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

from paddock.authoring.checks import wire
from paddock.authoring.checks.calls import check_calls
from paddock.authoring.checks.finding import Finding, Verdict, failed
from paddock.authoring.checks.kernel import check_kind
from paddock.authoring.checks.subject import Offer, Subject, callables_of
from paddock.core.errors import PaddockError
from paddock.host.listings import read_tool
from paddock.host.workshop.copies import Copy
from paddock.host.workshop.trial import Trial
from paddock.host.workshop.workshop import Workshop
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, PythonRuntime, Schema
from paddock.plugins.registry import schema_value
from paddock.plugins.runtimes.envelopes import speaks_mcp
from paddock.rpc.faults import PeerLost, RpcFault

# Told of each finding as it is made.
Report: TypeAlias = Callable[[Finding], None]

DESCRIBE_WITHIN = 10.0
_AFTER_GREETING = ("configuration", "ping", "unknown method", "shutdown", "standard output")


async def run_checks(workshop: Workshop, copy: Copy, report: Report, *, effects: bool) -> list[Finding]:
    """Every finding, in order.

    Args:
        workshop: What runs the plugin.
        copy: The plugin.
        report: Told meanwhile.
        effects: Whether callables that change something are called too.
    """
    findings: list[Finding] = []

    def tell(*found: Finding) -> None:
        for one in (replace(one, why=workshop.at_home(one.why)) for one in found):
            findings.append(one)
            report(one)

    try:
        async with workshop.trial(copy, copy.manifest.capabilities) as life:
            await _go_through(life, copy, tell, effects=effects)
    except PaddockError as error:
        tell(failed("start", error.message, error.hint))
    return findings


async def _go_through(life: Trial, copy: Copy, tell: Callable[..., None], *, effects: bool) -> None:
    greeted = await wire.check_handshake(life)
    tell(*greeted)
    if greeted[0].verdict is Verdict.FAIL:
        tell(*wire.not_reached(_AFTER_GREETING))
        return
    tell(await wire.check_config(life), await wire.check_ping(life), await wire.check_unknown_method(life))
    try:
        callables = await _callables(life, copy)
    except (RpcFault, TimeoutError, PeerLost) as error:
        tell(failed("what it offers", f"it did not say: {error}"))
    else:
        subject = Subject(life.manifest, life, callables, effects)
        tell(*await check_calls(subject))
        tell(*await check_kind(subject))
    tell(await wire.check_shutdown(life), wire.check_output(life))


async def _callables(life: Trial, copy: Copy) -> tuple[Offer, ...]:
    """What can be called: as the manifest says, or the code, or the server."""
    manifest = life.manifest
    if speaks_mcp(manifest):
        listed = [read_tool(one.raw) for one in await life.definitions() or () if one.kind == "tool"]
        specs = [one for one in listed if isinstance(one, CallableSpec)]
        return tuple(Offer(one, one.input_schema, one.output_schema, _said(one)) for one in specs)
    told: Mapping[str, Mapping[str, Any]] = {}
    if isinstance(manifest.runtime, PythonRuntime):
        told = await _described(life)
    schemas = {
        spec.name: (
            _schema(spec.input_schema, copy, told, spec.name, "input_schema"),
            _schema(spec.output_schema, copy, told, spec.name, "output_schema"),
        )
        for spec in manifest.callables
    }
    return callables_of(manifest, schemas)


def _schema(declared: Schema | None, copy: Copy, told: Mapping[str, Mapping[str, Any]], name: str, side: str) -> Any:
    """As the manifest has it, or the code."""
    own: Mapping[str, Any] = told.get(name) or {}
    return schema_value(declared, copy.root) or own.get(side) or {}


def _said(spec: CallableSpec) -> tuple[Effect, ...]:
    """What a server's tool does: here the author is asked, and a hint of theirs counts."""
    read_only = spec.annotations.get("readOnlyHint") is True
    return (Effect.READ_ONLY,) if read_only else (Effect.UNKNOWN,)


async def _described(life: Trial) -> Mapping[str, dict[str, Any]]:
    """The schemas that a worker's code computes."""
    answer = await life.ask("worker.describe", {}, DESCRIBE_WITHIN)
    told: Any = cast("dict[str, Any]", answer).get("callables") if isinstance(answer, dict) else {}
    return cast("dict[str, dict[str, Any]]", told)
