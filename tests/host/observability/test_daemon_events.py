"""What a daemon reports of its plugins while it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.host.conftest import Home

from paddock import Config, open_host
from paddock.daemon import run
from paddock.host.observability.metrics import Metrics


async def test_a_plugin_that_starts_while_the_daemon_reports_ready_is_reported_as_running(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.install()
    monkeypatch.setattr(run, "PLUGIN_START_WAIT_S", 0.0)
    count = Metrics.count_unknown_outcomes
    events: list[Mapping[str, Any]] = []
    reported = asyncio.Event()

    def emit(event: Mapping[str, Any]) -> None:
        events.append(event)
        if event.get("state") == "running":
            reported.set()

    async with open_host(Config(home=home.path, environ={})) as host:

        async def count_after_the_start(metrics: Metrics) -> Any:
            await host.plugins.processes.wait_settled()
            return await count(metrics)

        monkeypatch.setattr(Metrics, "count_unknown_outcomes", count_after_the_start)
        reporter = asyncio.create_task(run._report_plugin_states(host, emit, "", None))  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(30):
            await reported.wait()
        reporter.cancel()
    assert [event.get("state") or event["event"] for event in events] == ["spawning", "ready", "running"]
