"""One line as a value: nothing that arrives raises, and what is written is read back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.core.secret import Secret
from paddock.rpc.errors import RpcError
from paddock.rpc.message import (
    MAX_FRAME_BYTES,
    MalformedMessage,
    NonRpcLine,
    RpcFailure,
    RpcNotification,
    RpcRequest,
    RpcResult,
    decode,
    encode_failure,
    encode_notification,
    encode_request,
    encode_result,
)

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
PARAMS = st.dictionaries(TEXT, VALUES, max_size=4)
IDS = st.integers(-(2**63), 2**63 - 1) | TEXT
# Objects that are nearly messages: the right keys with any values.
NEARLY = st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "code"]), VALUES)


@given(st.binary() | VALUES.map(orjson.dumps) | NEARLY.map(lambda m: orjson.dumps({"jsonrpc": "2.0", **m})))
def test_no_line_makes_reading_it_fail(line):
    assert isinstance(decode(line), (RpcRequest, RpcNotification, RpcResult, RpcFailure, MalformedMessage, NonRpcLine))


@pytest.mark.req("G-02", "silent notifications")
@given(NEARLY.map(lambda message: {"jsonrpc": "2.0", **message}))
def test_a_message_is_never_two_kinds_at_once(message):
    read = decode(orjson.dumps(message))
    if isinstance(read, (RpcRequest, RpcNotification)):
        assert not message.keys() & {"result", "error"}
    if isinstance(read, (RpcResult, RpcFailure)):
        assert "method" not in message and len(message.keys() & {"result", "error"}) == 1


@given(IDS, TEXT, PARAMS, VALUES)
def test_what_is_written_is_one_line_and_read_back_the_same(id, method, params, value):  # noqa: A002
    request, notification = encode_request(id, method, params), encode_notification(method, params)
    result, failure = encode_result(id, value), encode_failure(id, RpcError(-32000, method, value))
    for line in (request, notification, result, failure):
        assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert decode(request) == RpcRequest(id, method, params)
    assert decode(notification) == RpcNotification(method, params)
    assert decode(result) == RpcResult(id, value)
    read = decode(failure)
    assert isinstance(read, RpcFailure) and (read.id, read.error.message, read.error.data) == (id, method, value)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"Infinity",
        b'{"a":NaN}',
        b"{} {}",
        b"1",
        b'"text"',
        b"null",
    ],
)
def test_what_is_no_object_and_no_array_is_noise(line):
    assert decode(line) == NonRpcLine(line)


@pytest.mark.parametrize("line", [b"[]", b"[1]", b'[{"jsonrpc":"2.0","id":1,"method":"m"}]'])
def test_an_array_is_a_batch(line):
    read = decode(line)
    assert isinstance(read, MalformedMessage) and (read.kind, read.code, read.id) == ("batch", -32600, None)


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 1, "result": 1, "error": {"code": 1, "message": ""}},
        {"id": 1, "error": None},
        {"id": 1, "error": {}},
        {"id": 1, "error": {"code": "1", "message": ""}},
        {"id": 1, "error": {"code": True, "message": ""}},
        {"id": 1, "error": {"code": 1.5, "message": ""}},
        {"id": 1, "error": {"code": 1, "message": None}},
    ],
)
def test_an_answer_that_breaks_the_rules_is_malformed_and_still_names_its_question(answer):
    read = decode(orjson.dumps({"jsonrpc": "2.0", **answer}))
    assert isinstance(read, MalformedMessage) and (read.meant_as, read.id) == ("answer", 1)


@pytest.mark.parametrize(
    ("line", "understood"),
    [
        (b'{"jsonrpc":"2.0","id":1,"id":2,"result":3}', RpcResult(2, 3)),
        (b'{"jsonrpc":"2.0","id":1,"result":3,"result":4}', RpcResult(1, 4)),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}', RpcRequest(1, "b", {})),
    ],
)
def test_a_key_that_stands_twice_counts_as_written_last(line, understood):
    assert decode(line) == understood


@pytest.mark.parametrize(("depth", "fine"), [(64, True), (65, False), (1_000, False), (50_000, False)])
def test_containers_may_be_nested_sixty_four_deep(depth, fine):
    inner = depth - 2  # the message itself and its params
    read = decode(b'{"jsonrpc":"2.0","method":"m","params":{"a":' + b"[" * inner + b"]" * inner + b"}}")
    assert isinstance(read, RpcNotification) if fine else isinstance(read, MalformedMessage) and read.kind == "too_deep"


@pytest.mark.req("G-01", "lines of JSON up to 4 MiB")
def test_a_message_of_four_mebibytes_can_be_sent_and_one_byte_more_cannot():
    empty = len(encode_result(1, "")) - 1
    assert len(encode_result(1, "x" * (MAX_FRAME_BYTES - empty))) == MAX_FRAME_BYTES + 1
    with pytest.raises(RpcError, match="4194304"):
        encode_result(1, "x" * (MAX_FRAME_BYTES - empty + 1))


@dataclass
class Record:
    password: str


@pytest.mark.parametrize("value", [Secret("s"), Record("s"), datetime.now(UTC), b"bytes", {1: 2}, "\ud800", 2**64])
def test_only_plain_json_is_written(value: Any):
    with pytest.raises(RpcError):
        encode_request(1, "m", {"value": value})


@pytest.mark.parametrize("data", [Secret("s"), "x" * MAX_FRAME_BYTES])
def test_an_error_answer_is_written_whatever_its_data_is(data):
    read = decode(encode_failure(1, RpcError(-32000, "failed", data)))
    assert isinstance(read, RpcFailure) and (read.error.code, read.error.message, read.error.data) == (
        -32000,
        "failed",
        None,
    )


def test_an_error_whose_data_cannot_be_written_still_says_that_nothing_happened() -> None:
    for data, kept in (({"no_effect": True, "a": {1}}, {"no_effect": True}), ({"no_effect": 1, "a": {1}}, None)):
        read = decode(encode_failure(1, RpcError(-32000, "failed", data)))
        assert isinstance(read, RpcFailure) and read.error.data == kept
