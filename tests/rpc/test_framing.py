"""Bytes into lines: the same lines however they arrive, and bounds that hold."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.core.schema.json_value import is_deeper_than
from paddock.rpc.framing import FramingViolation, LineSplitter, LineTooDense, LineTooLong
from paddock.rpc.message import StructureCounter, exceeds_depth

# Bytes that mean something to a splitter or a counter, and some that mean nothing.
TRICKY = st.lists(st.sampled_from([b"\n", b"\r\n", b"{", b"}", b"[", b",", b'"', b"\\", b"x", b"\xff"])).map(b"".join)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data, cut at these places."""
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def split(chunks: list[bytes], **bounds: int) -> tuple[list[bytes], bool]:
    """The lines, and whether a bound was passed."""
    splitter = LineSplitter(**bounds)
    lines: list[bytes] = []
    try:
        for chunk in chunks:
            lines += splitter.feed(chunk)
    except FramingViolation as violation:
        return lines + violation.before, True
    return lines, False


def outside_strings(line: bytes) -> int:
    """The structure of a line, counted one byte at a time."""
    count, quoted, escaped = 0, False, False
    for byte in line:
        if escaped and byte in b'"\\':
            escaped = False
        elif byte == ord("\\"):
            escaped = True
            continue
        elif byte == ord('"'):
            quoted = not quoted
        elif not quoted and byte in b"{}[],:":
            count += 1
        escaped = False
    return count


@pytest.mark.req("G-01", "lines of JSON up to 4 MiB")
@given(TRICKY, st.lists(st.integers(0, 10_000)))
def test_any_way_of_cutting_a_stream_gives_the_same_lines(data, cuts):
    expected = [line.rstrip(b"\r") for line in data.split(b"\n")[:-1]]
    assert split(pieces(data, cuts)) == ([line for line in expected if line], False)


@given(TRICKY, st.lists(st.integers(0, 10_000)), st.integers(1, 12))
def test_a_line_over_the_limit_ends_the_stream_at_the_same_place_however_it_is_cut(data, cuts, limit):
    lines, violated = split(pieces(data, cuts), limit=limit, max_structure=10_000)
    kept: list[bytes] = []
    for line in data.split(b"\n"):
        if len(line) > limit:
            break
        kept.append(line)
    expected_violation = len(kept) < len(data.split(b"\n"))
    whole = kept if expected_violation else kept[:-1]
    assert violated == expected_violation
    assert lines == [line.rstrip(b"\r") for line in whole if line.rstrip(b"\r")]


@given(TRICKY, st.lists(st.integers(0, 10_000)), st.integers(0, 8), st.integers(0, 8))
def test_a_long_line_with_too_much_structure_is_refused_however_it_is_cut(data, cuts, counted_from, most):
    _, violated = split(pieces(data, cuts), counted_from=counted_from, max_structure=most)
    # Seen even before its newline has come.
    assert violated == any(len(line) > counted_from and outside_strings(line) > most for line in data.split(b"\n"))


@given(TRICKY, st.lists(st.integers(0, 10_000)))
@example(b'"\\"[', [2])
@example(b'"\\\\"[', [2, 3])
@example(b'"\\n\\n"[', [])
def test_structure_is_counted_outside_strings_only_however_a_line_is_cut(data, cuts):
    counter = StructureCounter()
    total = 0
    for piece in pieces(data, cuts):
        total = counter.count(piece)
    assert total == outside_strings(data)


@pytest.mark.req("G-01", "lines of JSON up to 4 MiB")
def test_a_line_is_refused_at_the_byte_that_passes_the_limit_and_nothing_comes_after():
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"x" * 10) == []
    with pytest.raises(LineTooLong):
        splitter.feed(b"x")
    with pytest.raises(LineTooLong):
        splitter.feed(b"\nnext\n")


def test_lines_before_a_bad_one_in_the_same_chunk_are_not_lost():
    with pytest.raises(LineTooLong) as raised:
        LineSplitter(limit=10).feed(b"good\n\r\nfine\r\n" + b"x" * 11)
    assert raised.value.before == [b"good", b"fine"]


def test_density_is_judged_as_a_long_line_arrives_not_when_it_is_complete():
    splitter = LineSplitter()
    fed = 0
    with pytest.raises(LineTooDense):
        for _ in range(64):
            splitter.feed(b"[]," * 20_000)
            fed += 60_000
    assert fed < 500_000


def test_ordinary_data_of_four_mebibytes_is_not_dense():
    rows = [{"id": n, "text": "Lorem ipsum, dolor [sit] amet: " * 10, "tags": ["a", "b"]} for n in range(4_000)]
    line = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": rows})
    assert len(line) > 1_000_000
    assert split(pieces(line + b"\n", list(range(0, len(line), 65_536)))) == ([line], False)


TEXTS = st.text(st.sampled_from('[]{}"\\,:aé\n'), max_size=5)
VALUES = st.recursive(
    st.none() | TEXTS | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


@given(VALUES, st.integers(0, 8))
def test_depth_is_seen_in_the_bytes_as_it_is_in_the_value(value, depth):
    assert exceeds_depth(orjson.dumps(value), depth) == is_deeper_than(value, depth)
    assert exceeds_depth(orjson.dumps(value, option=orjson.OPT_INDENT_2), depth) == is_deeper_than(value, depth)
