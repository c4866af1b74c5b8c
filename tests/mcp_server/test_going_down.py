"""A daemon that is told to stop: calls of MCP clients finish, and those who listen are told that it is over."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mcp_server.speaking import Client, asking, headers_of, listening, stamped
from tests.mcp_server.test_streams import at_work

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually
from fixtures.prepared_homes import enabled_parrot, prepare_home


def test_calls_under_way_finish_and_streams_end(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    prepare_home(paddock, enabled_parrot)
    listens = asking("subscriptions/listen", 4, notifications={"toolsListChanged": True})
    with daemon(paddock) as served, ThreadPoolExecutor() as pool:
        client = Client(served)
        with (
            client.following() as standing,
            listening(served, "POST", stamped(listens), **headers_of(listens)) as news,
        ):
            next(news)
            called = pool.submit(client.call, "parrot__linger")
            eventually(lambda: at_work(served), "it never began")
            served.process.send_signal(signal.SIGTERM)

            assert called.result(PATIENCE).result["structuredContent"] == {"lingered": True}
            assert list(standing) == []
            last = [event["data"] for event in news][-1]
            assert (last["id"], last["result"]["resultType"]) == (4, "complete")
        assert served.ended() == 0
        assert "Exception" not in "".join(served.log)
