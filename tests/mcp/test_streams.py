"""Streams of events and headers, without any server."""

from __future__ import annotations

import base64
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.rpc.mcp.http_headers import McpRequestHeaders, encode_header_value, user_headers
from paddock.rpc.mcp.revisions import with_protocol_meta
from paddock.rpc.mcp.sse import SseEvent, SseEventTooLarge, SseParser

STREAM = (
    b"\xef\xbb\xbf: a comment\n"
    b"event: endpoint\ndata: /messages\n\n"
    b"id: 1\r\ndata: {\r\ndata:  1}\r\n\r\n"
    b"data\r\rretry: 250\rid: 2\rdata:x\r\r"
    b"nonsense: y\nretry: soon\n\n"
    b"data: unfinished"
)
EVENTS = [
    SseEvent("endpoint", b"/messages"),
    SseEvent("message", b"{  1}", "1"),
    SseEvent("message", b"", "1"),
    SseEvent("message", b"x", "2"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_events_are_the_same_in_whatever_pieces_they_arrive(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    splitter = SseParser()
    found = [event for start, end in pairwise(places) for event in splitter.feed(STREAM[start:end])]
    assert found == EVENTS and splitter.retry == 0.25


@pytest.mark.parametrize(
    "piece",
    [
        b"data: xxxxxxxxxx\n",
        b"xxxxxxxxxx",
        b"id: 7\ndata: xxxxxxxxxxxxx",
        b"data\n" * 6,
        b"data:\ndata: x\n" * 3,
    ],
)
def test_an_event_that_never_ends_is_given_up_at_its_bound(piece: bytes) -> None:
    splitter = SseParser(limit=1_000)
    with pytest.raises(SseEventTooLarge):
        for _ in range(200):
            splitter.feed(piece)


def test_an_event_may_have_as_many_bytes_as_its_bound_in_however_many_lines() -> None:
    splitter = SseParser(limit=1_000)
    assert splitter.feed(b"data: " + b"x" * 1_000 + b"\n\n") == [SseEvent("message", b"x" * 1_000)]
    assert splitter.feed(b"data:x\n" * 500 + b"\n") == [SseEvent("message", b" ".join([b"x"] * 500))]


@given(st.text(st.characters(blacklist_categories=("Cs",))))
def test_every_text_can_be_a_header_and_be_read_back(text: str) -> None:
    value = encode_header_value(text)
    assert value.isascii() and value.isprintable() and value == value.strip()
    wrapped = value.startswith("=?base64?") and value.endswith("?=")
    assert text == (base64.b64decode(value[9:-2]).decode() if wrapped else value)


def test_a_persons_headers_do_not_speak_for_the_protocol() -> None:
    given_headers = {"X-Key": "k", "Authorization": "b", "mcp-session-id": "s", "HOST": "h", "Content-Length": "1"}
    assert user_headers(given_headers) == (("X-Key", "k"), ("Authorization", "b"))


def test_marks_for_headers_that_are_none_are_left_out() -> None:
    headers = McpRequestHeaders()
    schema = {"properties": {"a": {"x-mcp-header": "bad name"}, "b": {"x-mcp-header": 5}, "c": {"x-mcp-header": "C"}}}
    headers.learn_tools([{"name": "t", "inputSchema": schema}, {"name": 5}, "text"])
    message = {
        "method": "tools/call",
        "params": with_protocol_meta({"name": "t", "arguments": {"a": 1, "c": True, "d": None}}),
    }
    assert [name for name, _ in headers.headers_for(message, None)][3:] == ["Mcp-Param-C"]
    assert headers.headers_for({"method": "tools/call", "params": {}}, "2025-06-18") == [
        ("Mcp-Protocol-Version", "2025-06-18")
    ]
