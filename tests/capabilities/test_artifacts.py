"""Artifacts through the door: kept under their hash, bounded, and read by those alone who may."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.capabilities.stage import FOR_ALL, Stage, open_stage, plugin

from fixtures.daemons import eventually
from paddock.capabilities.artifacts.address import artifact_address, find_digests
from paddock.capabilities.artifacts.request_params import MAX_INLINE_BYTES
from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.pipes import incoming_transfer
from paddock.capabilities.pipes.channel import MAX_STREAMS, open_channel
from paddock.capabilities.pipes.frames import FRAME_HEADER
from paddock.capabilities.request import CapabilityRequest
from paddock.core.call import CallContext, Principal
from paddock.core.error_formats import error_to_json
from paddock.core.errors import NotFound
from paddock.core.events.capabilities import PluginCapabilityDenied
from paddock.core.events.contracts import PluginArtifactCreated
from paddock.core.ids import PrincipalId, RequestId

NOTE = b"a long report" * 100


@pytest.fixture
async def stage(tmp_path: Path, database_address: str) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path, store=database_address) as opened:
        yield opened


def written(content: bytes) -> str:
    return base64.b64encode(content).decode()


def uri_of(content: bytes) -> str:
    return artifact_address(hashlib.sha256(content).hexdigest())


async def put(stage: Stage, asking: Any, content: bytes, **more: Any) -> dict[str, Any]:
    return await stage.ask(asking, "artifacts.put", base64=written(content), **{"media_type": "text/plain"} | more)


async def got(stage: Stage, asking: Any, uri: str, **part: Any) -> bytes:
    answer = await stage.ask(asking, "artifacts.get", uri=uri, inline=True, **part)
    content = base64.b64decode(answer["base64"])
    assert answer["size"] == len(content)
    return content


def context_of(person: str) -> CallContext:
    return CallContext(Principal(PrincipalId(f"user:{person}")), RequestId("req_1"))


def called_by(person: str, request: CapabilityRequest, payload: str) -> CapabilityRequest:
    """The request of a plugin that serves a call with this payload."""
    digests = find_digests({"document": [{"at": payload}]})
    return replace(request, call=context_of(person), artifact_digests=digests)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "artifacts").rglob("*") if path.is_file())


@pytest.mark.req("O-09", "address")
async def test_an_artifact_has_the_hash_of_its_bytes_for_an_address_and_is_recorded(stage: Stage) -> None:
    kept = await put(stage, plugin(), NOTE)
    assert kept == {
        "uri": uri_of(NOTE),
        "size": len(NOTE),
        "sha256": hashlib.sha256(NOTE).hexdigest(),
        "media_type": "text/plain",
    }
    assert await got(stage, plugin(), kept["uri"]) == NOTE
    (event,) = stage.recorded(PluginArtifactCreated)
    assert (event.plugin_id, event.artifact_uri, event.artifact_type) == ("notes", kept["uri"], "text/plain")
    assert event.size_bytes == len(NOTE)
    await put(stage, plugin(), NOTE)
    assert len(stage.recorded(PluginArtifactCreated)) == 1, "the same again is not another"


@pytest.mark.req("O-09", "byte range")
async def test_a_part_says_that_it_is_one_and_how_big_the_whole_is(stage: Stage) -> None:
    uri = (await put(stage, plugin(), NOTE))["uri"]
    answer = await stage.ask(plugin(), "artifacts.get", uri=uri, offset=7, length=6, inline=True)
    assert base64.b64decode(answer["base64"]) == b"report"
    assert (answer["is_partial"], answer["total_size"], answer["size"]) == (True, len(NOTE), 6)
    whole = await stage.ask(plugin(), "artifacts.get", uri=uri, inline=True)
    assert (whole["is_partial"], whole["total_size"]) == (False, len(NOTE))
    assert await got(stage, plugin(), uri, offset=len(NOTE) - 3, length=50) == NOTE[-3:]
    assert await got(stage, plugin(), uri, offset=len(NOTE)) == b""
    behind = await stage.refused(plugin(), "artifacts.get", uri=uri, offset=len(NOTE) + 1, inline=True)
    assert behind.details["param"] == "offset"


@pytest.mark.req("B-22", "artifacts")
async def test_a_plugin_reads_its_own_and_what_its_calls_payload_names_and_nothing_else(stage: Stage) -> None:
    uri = (await put(stage, plugin("maker"), NOTE))["uri"]
    other = plugin("reader")
    for stranger in (other, plugin("maker", tenant="elsewhere")):
        refused = await stage.refused(stranger, "artifacts.get", uri=uri, inline=True)
        assert refused.error_code == "artifacts.unknown"
    handed = called_by("ann", other, f"please read {uri}.")
    assert (await stage.refused(handed, "artifacts.get", uri=uri, inline=True)).error_code == "artifacts.unknown"
    await stage.artifacts.access.hand_over("maker", context_of("ann"), {}, {"made": uri})
    assert await got(stage, handed, uri) == NOTE
    for another in (called_by("bob", other, uri), replace(handed, artifact_digests=frozenset())):
        refused = await stage.refused(another, "artifacts.get", uri=uri, inline=True)
        assert refused.error_code == "artifacts.unknown", "it was handed to ann, for what she passes on"
    elsewhere = replace(plugin("reader", tenant="elsewhere"), artifact_digests=handed.artifact_digests)
    for asking in (elsewhere, replace(elsewhere, call=context_of("ann"))):
        assert (await stage.refused(asking, "artifacts.get", uri=uri, inline=True)).error_code == "artifacts.unknown"
    # To be handed one is not to have it.
    assert await stage.ask(handed, "artifacts.delete", uri=uri) == {"deleted": False}
    assert await got(stage, plugin("maker"), uri) == NOTE


async def test_what_a_callable_made_is_read_by_who_may_call_it(stage: Stage) -> None:
    for callable_name in ("for_few", FOR_ALL):
        uri = (await put(stage, plugin("maker", callable=callable_name), callable_name.encode()))["uri"]
        reading = called_by("bob", plugin("reader"), uri)
        if callable_name == FOR_ALL:
            assert await got(stage, reading, uri) == callable_name.encode()
            await stage.ask(plugin("maker"), "artifacts.delete", uri=uri)
        refused = await stage.refused(reading, "artifacts.get", uri=uri, inline=True)
        assert refused.error_code == "artifacts.unknown", callable_name


async def test_what_a_key_is_handed_is_for_its_owner_too(stage: Stage) -> None:
    uri = (await put(stage, plugin("maker"), NOTE))["uri"]
    key = Principal(PrincipalId("key:k1"), kind="key", owner=PrincipalId("user:ann"))
    await stage.artifacts.access.hand_over("maker", CallContext(key, RequestId("req_1")), {}, {"made": uri})
    assert await got(stage, called_by("ann", plugin("reader"), uri), uri) == NOTE


@pytest.mark.parametrize("way", ["deleted", "uninstalled"])
async def test_who_could_read_what_is_gone_does_not_read_what_is_stored_later(stage: Stage, way: str) -> None:
    """The bytes are the same, so the address is: low-entropy content would be confirmed by it."""
    reading, uri = plugin("reader"), uri_of(NOTE)
    await put(stage, plugin("maker", callable=FOR_ALL), NOTE)
    await stage.artifacts.access.hand_over("maker", context_of("ann"), {}, {"made": uri})
    for person in ("ann", "bob"):
        assert await got(stage, called_by(person, reading, uri), uri) == NOTE
    if way == "deleted":
        await stage.ask(plugin("maker"), "artifacts.delete", uri=uri)
    else:
        await stage.artifacts.forget("maker")

    await put(stage, plugin("maker", callable="for_few"), NOTE)
    for person in ("ann", "bob"):
        refused = await stage.refused(called_by(person, reading, uri), "artifacts.get", uri=uri, inline=True)
        assert refused.error_code == "artifacts.unknown", person


async def test_a_plugin_hands_over_nothing_that_is_not_its_own(stage: Stage) -> None:
    """Short content is guessed: who has stored the same learns nothing of others who did, and who has not, nothing."""
    uri = (await put(stage, plugin("maker"), b"yes", media_type="text/x-of-maker"))["uri"]
    access, digest = stage.artifacts.access, uri.rpartition("/")[2]

    async def refusal(asked: str) -> Any:
        with pytest.raises(NotFound) as refused:
            await access.find_readable(context_of("bob"), asked)
        return error_to_json(refused.value)

    await access.hand_over("guesser", context_of("bob"), {}, {"is": uri})
    assert await refusal(digest) == await refusal("0" * 64)
    await put(stage, plugin("guesser"), b"yes", media_type="text/x-of-guesser")
    assert await refusal(digest), "what it named before it had it was nothing to hand over"
    await access.hand_over("guesser", context_of("bob"), {}, {"is": uri})
    assert (await access.find_readable(context_of("bob"), digest)).media_type == "text/x-of-guesser"


async def test_a_plugin_that_repeats_what_it_is_told_hands_nothing_over_by_that(stage: Stage) -> None:
    uri = (await put(stage, plugin("maker"), b"yes"))["uri"]
    access, digest = stage.artifacts.access, uri.rpartition("/")[2]
    crowd = [artifact_address(f"{number:064x}") for number in range(300)]
    for payload in ({"text": f"is it {uri}?"}, {uri: 1}, {"first": uri, "then": crowd}, {"first": crowd, "then": uri}):
        await access.hand_over("maker", context_of("bob"), payload, {"you said": uri})
        with pytest.raises(NotFound):
            await access.find_readable(context_of("bob"), digest)


async def test_without_the_grant_every_method_is_refused_and_recorded(stage: Stage) -> None:
    asking = plugin(granted=("host:cache",))
    methods = {
        "artifacts.put": {"base64": ""},
        "artifacts.get": {"uri": uri_of(b"")},
        "artifacts.commit": {"stream": 1},
        "artifacts.delete": {"uri": uri_of(b"")},
    }
    for method, params in methods.items():
        assert (await stage.refused(asking, method, **params)).error_code == "capability_denied"
    assert [(event.method, event.capability) for event in stage.recorded(PluginCapabilityDenied)] == [
        (method, "host:artifacts") for method in methods
    ]


@pytest.mark.req("O-09", "size limit")
async def test_what_is_too_big_or_too_much_is_refused_with_the_limit(tmp_path: Path) -> None:
    limits = ArtifactLimits(artifact_bytes=1_000, plugin_bytes=2_500, plugin_count=3)
    async with open_stage(tmp_path, artifacts=limits) as stage:
        big = await stage.refused(plugin(), "artifacts.put", base64=written(bytes(1_001)))
        assert (big.error_code, big.details["limit_bytes"]) == ("artifacts.too_large", 1_000)
        first = await put(stage, plugin(), b"1" * 1_000)
        await put(stage, plugin(), b"2" * 1_000)
        full = await stage.refused(plugin(), "artifacts.put", base64=written(b"3" * 1_000))
        assert (full.error_code, "delete" in full.hint) == ("artifacts.full", True)
        await put(stage, plugin("other"), b"3" * 1_000)
        assert await stage.ask(plugin(), "artifacts.delete", uri=first["uri"]) == {"deleted": True}
        assert await stage.ask(plugin(), "artifacts.delete", uri=first["uri"]) == {"deleted": False}
        await put(stage, plugin(), b"3" * 1_000)
        await put(stage, plugin(), b"4")
        assert (await stage.refused(plugin(), "artifacts.put", base64=written(b"5"))).error_code == "artifacts.full"


async def test_bytes_lie_there_once_and_go_with_the_last_plugin_that_keeps_them(stage: Stage, tmp_path: Path) -> None:
    uri = (await put(stage, plugin("one"), NOTE))["uri"]
    assert (await put(stage, plugin("two"), NOTE))["uri"] == uri
    await put(stage, plugin("one"), b"its own")
    assert len(files(tmp_path)) == 2
    await stage.ask(plugin("one"), "artifacts.delete", uri=uri)
    assert await got(stage, plugin("two"), uri) == NOTE
    await stage.artifacts.forget("one")
    assert files(tmp_path) == [hashlib.sha256(NOTE).hexdigest()]
    await stage.ask(plugin("two"), "artifacts.delete", uri=uri)
    assert hashlib.sha256(NOTE).hexdigest() not in files(tmp_path)


async def test_bytes_that_another_plugin_comes_to_keep_while_one_is_uninstalled_stay(stage: Stage) -> None:
    """Whichever comes first, row or file: tried often enough for each order to happen."""
    for number in range(30):
        content = NOTE + bytes([number])
        await put(stage, plugin("old"), content)
        await asyncio.gather(stage.artifacts.forget("old"), put(stage, plugin("other"), content))
        assert await got(stage, plugin("other"), uri_of(content)) == content


@pytest.fixture
async def sending(stage: Stage) -> AsyncGenerator[tuple[CapabilityRequest, int], None]:
    """A plugin with pipes, and the end that it writes to."""
    (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
    violations: list[str] = []
    async with open_channel((ours_in, ours_out), violations.append) as channel:
        yield replace(plugin(), channel=channel), theirs_out
    os.close(theirs_in)
    os.close(theirs_out)
    assert violations == []


async def test_transfers_that_stall_are_told_so_and_hold_up_no_others(
    stage: Stage, sending: tuple[CapabilityRequest, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, pipe = sending
    monkeypatch.setattr(incoming_transfer, "IDLE_TIMEOUT_S", 0.05)
    stalled = [(await stage.ask(asking, "artifacts.put", size=3 << 20))["stream"] for _ in range(MAX_STREAMS)]
    async with asyncio.timeout(20):
        waiting = await stage.refused(asking, "artifacts.commit", stream=stalled[0])
        await asyncio.to_thread(eventually, lambda: not files(tmp_path), "what stalled is kept")
    late = [await stage.refused(asking, "artifacts.commit", stream=stream) for stream in stalled]
    assert {one.error_code for one in [waiting, *late]} == {"artifacts.stalled"}

    # Late bytes of one that stalled are no violation, and there is room for the next.
    monkeypatch.setattr(incoming_transfer, "IDLE_TIMEOUT_S", 30.0)
    stream = (await stage.ask(asking, "artifacts.put", size=len(NOTE)))["stream"]
    piece = bytes(1 << 20)
    frames = [(stalled[0], piece), (stalled[0], piece), (stalled[0], piece), (stream, NOTE), (stream, b"")]
    sent = b"".join(FRAME_HEADER.pack(number, len(content)) + content for number, content in frames)
    with os.fdopen(os.dup(pipe), "wb") as out:
        await asyncio.to_thread(out.write, sent)
        await asyncio.to_thread(out.flush)
    assert (await stage.ask(asking, "artifacts.commit", stream=stream))["uri"] == uri_of(NOTE)


@pytest.mark.parametrize(
    ("method", "params", "wrong"),
    [
        ("put", {}, "size"),
        ("put", {"size": -1}, "size"),
        ("put", {"size": True}, "size"),
        ("put", {"base64": "%%%"}, "base64"),
        ("put", {"base64": 5}, "base64"),
        ("put", {"base64": "", "media_type": "words"}, "media_type"),
        ("put", {"base64": "", "media_type": "text/plain\nX: y"}, "media_type"),
        ("put", {"base64": "", "sha256": "A" * 64}, "sha256"),
        ("get", {"uri": "artifact://sha256/../../etc/passwd"}, "uri"),
        ("get", {"uri": f"artifact://sha256/{'A' * 64}"}, "uri"),
        ("get", {"uri": uri_of(b""), "inline": "yes"}, "inline"),
        ("delete", {"uri": None}, "uri"),
    ],
)
async def test_a_wrong_parameter_is_told_by_its_name(
    stage: Stage, method: str, params: dict[str, Any], wrong: str
) -> None:
    refused = await stage.refused(plugin(), f"artifacts.{method}", **params)
    assert (refused.error_code, refused.details["param"]) == ("invalid_params", wrong)


async def test_a_message_carries_up_to_a_mebibyte_and_announced_hashes_hold_there_too(
    stage: Stage, tmp_path: Path
) -> None:
    content = bytes(MAX_INLINE_BYTES)
    assert await got(stage, plugin(), (await put(stage, plugin(), content))["uri"]) == content
    more = await stage.refused(plugin(), "artifacts.put", base64=written(bytes(MAX_INLINE_BYTES + 3)))
    assert more.error_code == "artifacts.too_large_inline"
    before = files(tmp_path)
    other = await stage.refused(plugin(), "artifacts.put", base64=written(NOTE), sha256="0" * 64)
    assert other.error_code == "artifacts.hash_mismatch"
    assert await stage.ask(plugin(), "artifacts.put", base64="") | {"media_type": ""} == {
        "uri": uri_of(b""),
        "size": 0,
        "sha256": hashlib.sha256(b"").hexdigest(),
        "media_type": "",
    }
    assert hashlib.sha256(NOTE).hexdigest() not in files(tmp_path)
    assert len(before) == 1
    assert (await stage.refused(plugin(), "artifacts.put", size=5)).error_code == "artifacts.no_channel"
