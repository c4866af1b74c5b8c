"""Lines that nobody reads: a client that stopped reading, while there is more and more to tell it."""

from __future__ import annotations

from tests.runtime.stage import patiently

from paddock.cli.client.stdio import MAX_UNREAD_BYTES, StdioLines


async def test_a_client_that_reads_nothing_of_64_mib_is_taken_for_gone_and_no_more_is_kept_for_it() -> None:
    streams = StdioLines()  # no thread writes, as where its reader is stuck
    line = b"x" * (MAX_UNREAD_BYTES // 64)
    for _ in range(64):
        streams.write(line)
    assert not streams.reader_gone
    for _ in range(1_000):
        streams.write(line)
    assert streams.reader_gone

    async def heard() -> list[bytes]:
        return [one async for one in streams.lines()]

    assert await patiently(heard()) == [], "the talk is over"
