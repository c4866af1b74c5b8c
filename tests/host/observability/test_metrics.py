"""Numbers around the door, read back with Prometheus's own parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.gate.test_governed_calls import ANN, EVE, Office, held, made_by

from paddock import Config, open_host
from paddock.core.errors import Denied, PluginError
from paddock.core.ids import DEFAULT_TENANT, CallId
from paddock.gate.invocation import Invocation
from paddock.host.observability.metrics import MAX_SERIES_PER_PLUGIN, OVERFLOW_LABEL
from paddock.host.observability.prometheus import Histogram, MetricFamily


def numbers(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def number(text: str, name: str, **labels: str) -> float:
    return numbers(text)[name, frozenset(labels.items())]


@pytest.mark.req("B-05", "metrics")
async def test_calls_decisions_and_what_waits_are_counted(tmp_path: Path) -> None:
    async with Office(tmp_path).open() as host:
        for _ in range(3):
            await host.call("mail.look", {}, context=made_by(ANN))
        with pytest.raises(Denied):
            await host.call("mail.look", {}, context=made_by(EVE))
        await held(host)
        text = host.observability.metrics.render(held=await host.observability.metrics.count_held())

    about: dict[str, Any] = {"tenant": "default", "plugin": "mail", "callable": "look"}
    assert number(text, "paddock_calls_total", status="succeeded", **about) == 3
    assert number(text, "paddock_calls_total", status="denied", **about) == 1
    assert number(text, "paddock_decisions_total", tenant="default", decision="allow") == 3
    assert number(text, "paddock_decisions_total", tenant="default", decision="ask") == 1
    assert number(text, "paddock_call_seconds_count", tenant="default", plugin="mail") == 3, "what reached the plugin"
    assert number(text, "paddock_call_errors_total", tenant="default", plugin="mail", code="policy_denied") == 1
    assert number(text, "paddock_calls_held") == 1
    assert number(text, "paddock_plugin_up", tenant="default", plugin="mail", version="1.0.0") == 1
    assert number(text, "paddock_recording") == 1


async def test_a_host_that_did_nothing_has_numbers_too(tmp_path: Path) -> None:
    async with open_host(Config(home=tmp_path / "home", environ={})) as host:
        text = host.observability.metrics.render()
    assert number(text, "paddock_calls_running") == 0
    assert {family.type for family in text_string_to_metric_families(text)} == {"counter", "histogram", "gauge"}


def test_buckets_hold_all_that_is_no_larger() -> None:
    seconds = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7):
        seconds.observe(value)
    text = "".join(
        f"{line}\n" for line in MetricFamily("s", "histogram", "Seconds.", ("plugin",)).lines({("a",): seconds})
    )
    assert [number(text, "s_bucket", plugin="a", le=le) for le in ("0.1", "1", "+Inf")] == [2, 3, 4]
    assert number(text, "s_sum", plugin="a") == pytest.approx(7.65)


def test_a_name_that_a_plugin_chose_breaks_nothing() -> None:
    odd = 'a"b\\c\nd} 7'
    text = "".join(
        f"{line}\n" for line in MetricFamily("c_total", "counter", "Counted.", ("plugin",)).lines({(odd,): 1})
    )
    assert number(text, "c_total", plugin=odd) == 1


async def test_names_that_plugins_chose_neither_fill_the_memory_nor_hide_others(tmp_path: Path) -> None:
    async with Office(tmp_path).open() as host:
        target = host._gate.catalogue(DEFAULT_TENANT).find("mail.look")  # pyright: ignore[reportPrivateUsage]
        for index in range(2 * MAX_SERIES_PER_PLUGIN):
            course = Invocation(CallId("call"), target, {}, made_by(ANN), 0.0)
            course.ran = True
            course.finish(1.0, None, PluginError("no", code=f"code_{index}"))
            host.observability.metrics.call_ended(course)
        text = host.observability.metrics.render()
    about: dict[str, Any] = {"tenant": "default", "plugin": "mail"}
    codes = [labels for name, labels in numbers(text) if name == "paddock_call_errors_total"]
    assert len(codes) == MAX_SERIES_PER_PLUGIN + 1
    assert number(text, "paddock_call_errors_total", code=OVERFLOW_LABEL, **about) == MAX_SERIES_PER_PLUGIN
    assert number(text, "paddock_call_seconds_count", **about) == 2 * MAX_SERIES_PER_PLUGIN, (
        "and all of them are counted"
    )
