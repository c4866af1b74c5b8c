"""Each plugin's calls, latency and error rate, for Prometheus and in the status."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.parrot import parrot

MAIN = """
import time
from paddock_sdk import Plugin
plugin = Plugin({name!r}, {version!r})

@plugin.tool
def go(params, context):
    return {{}}

@plugin.tool
def fail(params, context):
    time.sleep(0.06)
    raise ValueError("no")

plugin.run()
"""


@pytest.mark.req("G-32", "metrics")
def test_calls_latency_and_error_rate_of_each_plugin_are_in_the_metrics_and_in_the_status(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    for name in ("moody", "steady"):
        package = parrot(tmp_path / name, name, main=MAIN, tools=("go", "fail"))
        paddock.quickly("plugin", "install", package, "--yes")
        paddock.quickly("plugin", "enable", name)
    with daemon(paddock) as served:
        before = served.ask("GET", "/status").body["plugins"]
        for plugin, tool in [*[("moody", "go")] * 3, ("moody", "fail"), ("steady", "go")]:
            served.ask("POST", f"/plugins/{plugin}/call/{tool}", {})
        text = served.ask("GET", "/metrics").body
        moody, steady = served.ask("GET", "/status").body["plugins"]

    samples = {
        (
            sample.name,
            *(sample.labels[label] for label in ("plugin", "status", "code", "le") if label in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("plugin") and sample.labels.get("callable", "go") == "go"
    }
    assert samples["paddock_calls_total", "moody", "succeeded"] == 3
    assert samples["paddock_calls_total", "steady", "succeeded"] == 1
    assert samples["paddock_call_errors_total", "moody", "plugin_error"] == 1
    assert ("paddock_call_errors_total", "steady", "plugin_error") not in samples
    assert samples["paddock_call_seconds_bucket", "moody", "+Inf"] == 4
    assert samples["paddock_call_seconds_bucket", "moody", "0.05"] <= 3, "one took longer"

    assert before == []
    assert (moody["tenant"], moody["plugin"], moody["calls"], moody["failed"]) == ("default", "moody", 4, 1)
    assert (moody["error_rate"], steady["error_rate"]) == (0.25, 0.0)
    assert (steady["plugin"], steady["calls"], steady["latency_s"]["count"]) == ("steady", 1, 1)
    buckets = moody["latency_s"]["buckets"]
    assert [bucket["le"] for bucket in buckets][-2:] == [120.0, None]
    assert [bucket["count"] for bucket in buckets][-1] == moody["latency_s"]["count"] == 4
    assert 0 < moody["latency_s"]["sum"] < 4 * 120
    for bucket in buckets[:-1]:
        assert bucket["count"] == samples["paddock_call_seconds_bucket", "moody", f"{bucket['le']:g}"]
