"""However the bytes are cut on their way, the same messages come out."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock_sdk.framing as framing
from paddock_sdk.faults import HostGone, PluginFault
from paddock_sdk.framing import Lines

SHORT = 64  # a limit that random lines reach

json_lines = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=40), max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
)
any_line = json_lines | st.binary(max_size=100).map(lambda line: line.replace(b"\n", b" "))


def expected(line: bytes) -> Any:
    """What one line means: its value, or the code of its error."""
    if len(line) > SHORT:
        return -32600
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return -32700


def all_of(data: bytes) -> list[Any]:
    """Everything that is read before the pipe ends; a code in the place of a fault."""
    source, far_end = os.pipe()
    lines, found = Lines(source, -1), list[Any]()
    os.write(far_end, data)
    os.close(far_end)
    with pytest.raises(HostGone):
        while True:
            found += lines.read()
    os.close(source)
    return [one.error_code if isinstance(one, PluginFault) else one for one in found]


@given(lines=st.lists(any_line, max_size=6), chunk=st.integers(1, SHORT), ends=st.booleans())
def test_any_cut_of_the_bytes_gives_the_same_messages(lines: list[bytes], chunk: int, *, ends: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if lines and ends else b"")
    asked = lines if ends or not lines or lines[-1] else lines[:-1]  # an empty rest is no line
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "MAX_MESSAGE_BYTES", SHORT)
        patch.setattr(framing, "READ_CHUNK_BYTES", chunk)
        assert all_of(data) == [expected(line) for line in asked]


def test_an_answer_larger_than_the_pipe_arrives_whole() -> None:
    source, sink = os.pipe()
    arrived = bytearray()

    def slowly() -> None:
        while chunk := os.read(source, 4096):
            arrived.extend(chunk)

    reader = threading.Thread(target=slowly)
    reader.start()
    Lines(-1, sink).answer('a"b', "x" * 1_000_000)
    os.close(sink)
    reader.join(30)
    os.close(source)
    assert json.loads(arrived) == {"jsonrpc": "2.0", "id": 'a"b', "result": "x" * 1_000_000}
