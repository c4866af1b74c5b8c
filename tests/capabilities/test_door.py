"""The one door: what was not granted is denied and recorded, what nobody serves is not found."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from paddock.capabilities.dispatcher import CapabilityDispatcher
from paddock.capabilities.methods import REQUIRED_CAPABILITIES
from paddock.core.call import CallContext, Principal
from paddock.core.errors import Denied, HostError, NotFound
from paddock.core.events.capabilities import PluginCapabilityDenied, PluginDenialFlood
from paddock.core.ids import PrincipalId, RequestId
from paddock.manifest.model import Dialect, PluginKind

from .stage import EVERYTHING, open_stage, plugin, wire_code


@pytest.mark.req("S-09", "frame")
@pytest.mark.req("S-09", "storage")
@pytest.mark.req("S-09", "cache")
@pytest.mark.req("S-09", "secrets")
@pytest.mark.req("S-09", "http")
@pytest.mark.req("S-09", "rate")
@pytest.mark.parametrize("method", sorted(method for method, needed in REQUIRED_CAPABILITIES.items() if needed))
async def test_what_was_not_granted_is_denied_and_recorded(method: str, tmp_path: Path) -> None:
    needed = str(REQUIRED_CAPABILITIES[method])
    others = tuple(text for text in EVERYTHING if text not in (needed, "storage:write"))
    async with open_stage(tmp_path) as stage:
        for granted in ((), tuple(text for text in others if text != needed)):
            error = await stage.refused(plugin("notes", granted), method, sql="SELECT 1", key="k", value=1)

            assert isinstance(error, Denied)
            assert wire_code(error) == (-32003 if method.startswith("storage.") else -32001)
            assert needed in error.message
            assert needed in error.hint
        event = stage.recorded(PluginCapabilityDenied)[0]
        assert (event.name, event.method, event.capability, event.request_id) == ("notes", method, needed, None)
        assert not (tmp_path / "storage").exists(), "nothing was touched"


WRITING = {
    "storage.exec", "storage.begin", "storage.commit", "storage.rollback", "keyvalue.put", "keyvalue.delete",
    "cache.set", "cache.delete", "artifacts.put", "artifacts.commit", "artifacts.delete",
}  # fmt: skip


@pytest.mark.req("K-01", "an agent has no effect and writes nothing")
@pytest.mark.req("K-01", "a tool writes nothing and reads through the host")
@pytest.mark.req("K-01", "an adapter never writes")
@pytest.mark.parametrize("kind", [PluginKind.AGENT, PluginKind.TOOL, PluginKind.ADAPTER])
async def test_what_keeps_something_is_denied_to_a_kind_that_does_not_act_whatever_was_granted(
    kind: PluginKind, tmp_path: Path
) -> None:
    asking = plugin("Text.Score", kind=kind)
    async with open_stage(tmp_path) as stage:
        for method in sorted(WRITING):
            error = await stage.refused(asking, method, sql="CREATE TABLE t (n)", key="k", value=1, base64="")
            assert (type(error), str(kind) in error.message) == (Denied, True), method
        assert {event.method for event in stage.recorded(PluginCapabilityDenied)} == WRITING
        assert await stage.ask(asking, "storage.schema") == {"tables": []}
        assert (await stage.ask(asking, "keyvalue.get", key="k"))["found"] is False
        assert (await stage.ask(asking, "cache.get", key="k"))["found"] is False
        assert await stage.ask(plugin("Text.Score", kind=PluginKind.OPERATOR), "cache.set", key="k", value=1)


async def test_a_denial_names_the_request_that_it_was_asked_for(tmp_path: Path) -> None:
    context = CallContext(Principal(PrincipalId("someone")), RequestId("req_1"))
    asking = replace(plugin("notes", ()), call=context)
    async with open_stage(tmp_path) as stage:
        await stage.refused(asking, "cache.get", key="k")
        assert stage.recorded(PluginCapabilityDenied)[0].request_id == "req_1"


@pytest.mark.req("G-04", "to the host")
async def test_each_dialect_knows_the_host_by_one_name_only(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        for dialect, known, unknown in (
            (Dialect.KAGED, "kaged", "paddock"),
            (Dialect.NATIVE, "paddock", "kaged"),
            (Dialect.SHU, "paddock", "kaged"),
        ):
            asking = plugin("notes", dialect=dialect)
            assert await stage.door.answer(asking, f"{known}.storage.schema", {}) == {"tables": []}
            for name in (
                f"{unknown}.storage.schema",
                "storage.schema",
                f"{known}.storage",
                f"{known}.storage.drop",
                "",
            ):
                with pytest.raises(NotFound) as refused:
                    await stage.door.answer(asking, name, {})
                assert wire_code(refused.value) == -32601
        assert not stage.recorded(PluginCapabilityDenied)


def test_a_method_without_a_handler_and_a_handler_without_a_method_are_found_at_start() -> None:
    async def nothing(asking: object, params: object) -> None: ...

    for handlers in ({}, dict.fromkeys([*REQUIRED_CAPABILITIES, "storage.peek"], nothing)):
        with pytest.raises(HostError):
            CapabilityDispatcher(handlers, None, None, usage=None, denials=None)  # type: ignore[arg-type]


async def test_a_flood_of_denials_is_recorded_as_one(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        for _ in range(100):
            await stage.refused(plugin("notes", ()), "cache.get", key="k")
        await stage.refused(plugin("other", ()), "cache.get", key="k")
        stage.clock.seconds += 1
        await stage.refused(plugin("notes", ()), "cache.get", key="k")

        assert [event.name for event in stage.recorded(PluginCapabilityDenied)] == ["notes"] * 20 + ["other", "notes"]
        assert [event.limit_per_second for event in stage.recorded(PluginDenialFlood)] == [20]


@pytest.mark.req("S-09", "logger")
@pytest.mark.req("S-19", "logger")
async def test_every_plugin_may_write_to_the_log_in_printable_bounded_lines(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        fields = {"user\x1b[31m": "a\nb", "n": 7, "deep": {"a": [1, None]}, "big": list(range(10_000))}
        assert await stage.ask(plugin("notes", ()), "log.write", level="warning", message="\x1b[2Jhi\n", fields=fields)
        await stage.ask(plugin("notes", ()), "log.write", message="x" * 100_000)

        (name, level, message, shown), (_, usual, long, none) = stage.lines
        assert (name, level, message) == ("notes", "warning", "\\x1b[2Jhi\\n")
        assert shown["user\\x1b[31m"] == "a\\nb"
        assert (shown["n"], shown["deep"]) == ("7", '{"a":[1,null]}')
        assert len(shown["big"]) < 200
        assert (usual, len(long), none) == ("info", 8_192, {})
        for wrong in ({"level": "fatal", "message": "x"}, {"message": 7}, {"message": "x", "fields": [1]}):
            assert wire_code(await stage.refused(plugin("notes", ()), "log.write", **wrong)) == -32602


async def test_a_plugin_that_logs_without_end_is_cut_off_for_the_rest_of_the_second(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        for _ in range(300):
            last = await stage.ask(plugin("notes", ()), "log.write", message="again")
        assert last == {"written": False}
        assert len(stage.lines) == 200
        stage.clock.seconds += 1
        assert await stage.ask(plugin("notes", ()), "log.write", message="again") == {"written": True}
