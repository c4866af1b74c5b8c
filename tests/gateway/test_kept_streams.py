"""What is kept for clients that come back has a bound, however many sessions and streams there are."""

from __future__ import annotations

import pytest

from paddock.gateway.streams import KEPT_EVENTS, KEPT_STREAMS, Ended, Stream, Streams

pytestmark = pytest.mark.req("B-01")


def ended(streams: Streams, message: bytes) -> Stream:
    stream = streams.open(primed=False)
    stream.put(message)
    stream.end()
    return stream


def test_streams_that_ended_are_kept_within_one_bound_for_all_sessions_and_the_oldest_go_first() -> None:
    together = Ended(most=1_000)
    sessions = [Streams(together) for _ in range(4)]
    streams = [[ended(session, b"x" * 100) for _ in range(5)] for session in sessions]

    assert sum(stream.size for those in streams for stream in those) == 1_000
    assert sessions[0].found("1-0") is None, "the oldest are forgotten"
    newest = sessions[3].found("5-0")
    assert newest is not None and newest[0] is streams[3][-1]

    for session in sessions[2:]:
        session.close()  # what its streams took is free again
    again = Streams(together)
    for _ in range(10):
        ended(again, b"y" * 100)
    assert again.found("1-0") is not None


def test_a_session_forgets_its_oldest_streams_and_what_they_took() -> None:
    together = Ended(most=KEPT_STREAMS + 10)
    session, other = Streams(together), Streams(together)
    kept = ended(other, b"x")
    for _ in range(3 * KEPT_STREAMS):
        ended(session, b"x")
    assert session.found("1-0") is None
    assert other.found("1-0") == (kept, 0), "of another session's, nothing had to go"


def test_a_stream_that_nobody_reads_does_not_grow_by_hearing_the_same_again() -> None:
    stream = Stream("1")
    for _ in range(10 * KEPT_EVENTS):
        for message in (b"tools", b"prompts"):
            stream.put_once(message)
    assert stream.size == len(b"tools" + b"prompts")


async def test_who_has_read_of_a_change_hears_of_the_next() -> None:
    stream, read = Stream("1"), list[bytes]()

    async def write(event: bytes) -> None:
        read.append(event)

    for _ in range(2):
        stream.put_once(b"tools")
    stream.end()
    await stream.read(write)
    stream.put_once(b"tools")
    await stream.read(write, stream.read_to)
    assert len(read) == 2
