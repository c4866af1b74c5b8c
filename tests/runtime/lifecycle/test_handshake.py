"""The first exchange with a plugin, and every way in which it can go wrong."""

from __future__ import annotations

import pytest
from tests.runtime.stage import Stage

from paddock.core.errors import NotFound
from paddock.core.events.contracts import (
    PluginApiMismatch,
    PluginMethodsDiffer,
    PluginNameMismatch,
    PluginVersionMismatch,
)
from paddock.core.events.event import Event
from paddock.core.events.plugin_runtime import (
    PluginCapabilityOverreach,
    PluginCrashed,
    PluginInitialized,
    PluginProtocolViolation,
    PluginSpawned,
)
from paddock.runtime.lifecycle import PluginState

req = pytest.mark.req


def row(name: str) -> pytest.MarkDecorator:
    return req("G-03", name)


def unusable(what: str) -> PluginProtocolViolation:
    detail = f"the answer to initialize has no usable {what}"
    return PluginProtocolViolation(name="actor", violation_type="handshake", detail=detail)


NO_METHODS, NO_NAME, NO_API = unusable("methods"), unusable("name"), unusable("api_version")


@pytest.mark.req("G-19", "the documented steps")
@pytest.mark.req("G-29", "plugin.spawned")
@pytest.mark.req("G-29", "plugin.initialized")
@pytest.mark.req("G-31", "handshake happy path")
async def test_a_plugin_that_answers_as_its_manifest_says_runs_once_it_took_its_configuration(stage: Stage) -> None:
    stage.configs["actor"] = {"colour": "green"}
    actor = stage.actor(
        """
seen = [read()]
answer(seen[0], introduction())
seen.append(read())
seen.append(read())
answer(seen[2], {"status": "ok"})
serve(do_it=lambda request: {"seen": seen})
""",
        config_schema={"type": "object", "properties": {"colour": {"type": "string"}}},
    )
    assert (await actor.settled()).state is PluginState.RUNNING
    initialize, initialized, configured = (await actor.call("do.it"))["seen"]
    assert initialize["method"] == "initialize"
    assert initialize["id"] == 1
    assert initialize["params"]["plugin_name"] == "actor"
    assert initialize["params"]["api_version"] == 1
    assert initialize["params"]["projects"] == []
    assert initialized == {"jsonrpc": "2.0", "method": "initialized", "params": {}}
    assert (configured["method"], configured["params"]) == ("config.update", {"config": {"colour": "green"}})
    spawned, initialized = stage.audience.events[:2]
    assert isinstance(spawned, PluginSpawned)
    assert (spawned.name, spawned.version, spawned.pid) == ("actor", "1.0.0", actor.status.pid)
    assert spawned.cage_id == actor.status.cage_id
    assert initialized == PluginInitialized(name="actor", methods_count=1, capabilities_count=0)


@pytest.mark.parametrize(
    ("said", "event", "code"),
    [
        pytest.param(
            'name="someone-else"',
            PluginNameMismatch(name="actor", received="someone-else"),
            "initialize.name_mismatch",
            id="another name",
            marks=[row("name mismatch"), req("G-31", "name mismatch"), req("G-29", "plugin.name_mismatch")],
        ),
        pytest.param(
            'version="9.9.9"',
            PluginVersionMismatch(name="actor", expected="1.0.0", received="9.9.9"),
            "initialize.version_mismatch",
            id="another version",
            marks=[row("version mismatch"), req("G-29", "plugin.version_mismatch")],
        ),
        pytest.param(
            "api_version=99",
            PluginApiMismatch(name="actor", expected=1, received=99),
            "initialize.api_mismatch",
            id="another api",
            marks=[
                row("api_version mismatch"),
                req("G-31", "api version mismatch"),
                req("G-29", "plugin.api_mismatch"),
            ],
        ),
        pytest.param(
            'capabilities_used=["net:evil.example:443"]',
            PluginCapabilityOverreach(name="actor", claimed=("net:evil.example:443",), allowed=()),
            "initialize.capability_overreach",
            id="capabilities it was not granted",
            marks=[
                row("capability overreach"),
                req("G-31", "capability overreach"),
                req("G-29", "plugin.capability_overreach"),
            ],
        ),
        pytest.param("methods=7", NO_METHODS, "protocol_violation", id="methods", marks=row("malformed response")),
        pytest.param("name=None", NO_NAME, "protocol_violation", id="no name", marks=row("malformed response")),
        pytest.param("api_version=True", NO_API, "protocol_violation", id="no api", marks=row("malformed response")),
    ],
)
async def test_a_plugin_that_answers_the_handshake_with_anything_else_is_ended_and_not_restarted(
    stage: Stage, said: str, event: Event, code: str
) -> None:
    actor = stage.actor(f"hello({said})\nserve()")
    status = await actor.until(PluginState.FAILED)
    assert status.error_code == code
    assert status.reason
    assert stage.audience.of(type(event)) == [event]
    assert len(stage.audience.of(PluginSpawned)) == 1
    assert not stage.audience.of(PluginCrashed)


@pytest.mark.parametrize(
    "first_words",
    [
        pytest.param(
            'send({"jsonrpc": "2.0", "method": "catalog.updated", "params": {}})',
            id="a notification",
            marks=row("message before initialize"),
        ),
        pytest.param(
            'send({"jsonrpc": "2.0", "id": 1, "method": "kaged.storage.query"})',
            id="a request",
            marks=row("message before initialize"),
        ),
        pytest.param(
            'read(); send([{"jsonrpc": "2.0", "id": 1, "result": {}}])', id="a batch", marks=row("malformed response")
        ),
        pytest.param(
            'read(); send({"id": 1, "result": {}})', id="an answer without a version", marks=row("malformed response")
        ),
        pytest.param(
            'read(); send({"jsonrpc": "2.0", "id": 1})',
            id="an answer without a result",
            marks=row("malformed response"),
        ),
        pytest.param('refuse(read(), -32603, "not today")', id="an error", marks=row("malformed response")),
    ],
)
async def test_a_plugin_that_breaks_the_protocol_before_it_is_greeted_is_ended_and_not_restarted(
    stage: Stage, first_words: str
) -> None:
    actor = stage.actor(f"{first_words}\nserve()")
    status = await actor.until(PluginState.FAILED)
    assert status.error_code == "protocol_violation"
    assert stage.audience.of(PluginProtocolViolation)
    assert len(stage.audience.of(PluginSpawned)) == 1


@pytest.mark.req("G-35")
async def test_methods_that_the_manifest_does_not_declare_are_ignored_and_missing_ones_unavailable(
    stage: Stage,
) -> None:
    declared = [{"name": "do.it", "effects": ["read_only"]}, {"name": "not.there", "effects": ["read_only"]}]
    actor = stage.actor(
        'hello(methods=["do.it", "some.other"])\nserve(do_it=lambda request: {"done": True})', methods=declared
    )
    assert (await actor.settled()).unavailable_methods == ("not.there",)
    assert await actor.call("do.it") == {"done": True}
    with pytest.raises(NotFound, match="does not serve it") as refused:
        await actor.call("not.there")
    assert refused.value.error_code == "method_not_found"
    warning = await stage.audience.event(PluginMethodsDiffer)
    assert (warning.extra, warning.missing) == (("some.other",), ("not.there",))


async def test_a_banner_on_standard_output_before_the_handshake_is_noise_and_no_reason_to_die(stage: Stage) -> None:
    actor = stage.actor('print("Welcome to my plugin!", flush=True)\nhello()\nserve(do_it=lambda r: {"ok": 1})')
    assert (await actor.settled()).state is PluginState.RUNNING
    assert await actor.call("do.it") == {"ok": 1}
