"""What is kept for clients that come back has a bound, however many sessions and streams there are."""

from __future__ import annotations

from paddock.mcp_server.http_transport.event_streams import (
    MAX_BUFFERED_EVENTS,
    MAX_ENDED_STREAMS,
    EndedStreams,
    EventStream,
    SessionStreams,
)


def ended(streams: SessionStreams, message: bytes) -> EventStream:
    stream = streams.open(primed=False)
    stream.put(message)
    stream.end()
    return stream


def test_streams_that_ended_are_kept_within_one_bound_for_all_sessions_and_the_oldest_go_first() -> None:
    together = EndedStreams(max_bytes=1_000)
    sessions = [SessionStreams(together) for _ in range(4)]
    streams = [[ended(session, b"x" * 100) for _ in range(5)] for session in sessions]

    assert sum(stream.size for those in streams for stream in those) == 1_000
    assert sessions[0].find("1-0") is None, "the oldest are forgotten"
    newest = sessions[3].find("5-0")
    assert newest is not None and newest[0] is streams[3][-1]

    for session in sessions[2:]:
        session.close()  # what its streams took is free again
    again = SessionStreams(together)
    for _ in range(10):
        ended(again, b"y" * 100)
    assert again.find("1-0") is not None


def test_a_session_forgets_its_oldest_streams_and_what_they_took() -> None:
    together = EndedStreams(max_bytes=MAX_ENDED_STREAMS + 10)
    session, other = SessionStreams(together), SessionStreams(together)
    kept = ended(other, b"x")
    for _ in range(3 * MAX_ENDED_STREAMS):
        ended(session, b"x")
    assert session.find("1-0") is None
    assert other.find("1-0") == (kept, 0), "of another session's, nothing had to go"


def test_a_stream_that_nobody_reads_does_not_grow_by_hearing_the_same_again() -> None:
    stream = EventStream("1")
    for _ in range(10 * MAX_BUFFERED_EVENTS):
        for message in (b"tools", b"prompts"):
            stream.put_unless_pending(message)
    assert stream.size == len(b"tools" + b"prompts")


async def test_who_has_read_of_a_change_hears_of_the_next() -> None:
    stream, read = EventStream("1"), list[bytes]()

    async def write(event: bytes) -> None:
        read.append(event)

    for _ in range(2):
        stream.put_unless_pending(b"tools")
    stream.end()
    await stream.read(write)
    stream.put_unless_pending(b"tools")
    await stream.read(write, stream.last_read)
    assert len(read) == 2
