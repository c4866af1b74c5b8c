"""The map: who calls which plugins, and what those reach; readable with two hundred plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import native
from fixtures.page_clients import signed_in
from paddock.console.pages.plugins.map_layout import MAX_CALLERS_DRAWN, MAX_PLUGINS_DRAWN, MapRow, draw, map_rows
from paddock.core.ids import PluginName
from paddock.ledger.read.callers import CallerCount
from paddock.manifest.capability import parse_capability
from paddock.plugins.manage.reach import PluginReach

NAMES = {"key:1": "Robin’s assistant"}


def reach(name: str, *granted: str, **dangers: str) -> PluginReach:
    return PluginReach(
        PluginName(name), tuple(map(parse_capability, granted)), {granted[0]: dangers["danger"]} if dangers else {}
    )


def many(count: int) -> list[MapRow]:
    plugins = [
        reach(f"p{number:03}", f"net:host{number}.example:443", "storage:write")
        if number % 2
        else reach(f"p{number:03}")
        for number in range(count)
    ]
    calls = [CallerCount(f"p{number:03}", f"user:u{number}", 3) for number in range(0, count, 4)]
    return map_rows([*plugins, reach("risky", "net:*", danger="It can send what it reads to any host.")], calls, {})


def test_a_row_names_its_callers_and_what_it_reaches_and_dangerous_plugins_come_first() -> None:
    rows = map_rows(
        [reach("calm", "storage:write"), reach("risky", "net:*", "read:fs:/data", danger="Any host.")],
        [CallerCount("calm", "key:1", 7)],
        NAMES,
    )

    assert [(row.plugin, row.dangerous, row.callers) for row in rows] == [
        ("risky", True, ()),
        ("calm", False, (("Robin’s assistant", 7),)),
    ]
    assert [(one.kind, one.text, one.danger) for one in rows[0].targets] == [
        ("Network", "any host", "Any host."),
        ("Files", "/data (read)", ""),
    ]


def test_two_hundred_plugins_are_drawn_as_a_few_boxes_and_danger_stays_a_box_of_its_own() -> None:
    picture = draw(many(200), every_plugin=False)

    assert len(picture.plugins) <= MAX_PLUGINS_DRAWN
    assert len(picture.callers) <= MAX_CALLERS_DRAWN
    assert len(picture.targets) < 12
    assert picture.height < 1_000
    assert picture.plugins[0].box.plugin == "risky"
    assert [line.dangerous for line in picture.plugins[0].lines] == [True]
    drawn = sum(1 if node.box.plugin else int(node.box.label.split()[0]) for node in picture.plugins)
    assert drawn == 201


def test_each_plugin_is_drawn_where_that_is_asked_for() -> None:
    assert len(draw(many(200), every_plugin=True).plugins) == 201


@pytest.mark.parametrize("count", [0, 1, MAX_PLUGINS_DRAWN])
def test_few_plugins_are_never_grouped(count: int) -> None:
    picture = draw(many(count)[:MAX_PLUGINS_DRAWN], every_plugin=False)
    assert all(node.box.plugin for node in picture.plugins)


def test_operators_see_the_map_of_their_host(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    for name, capabilities in (("oats", ["net:*", "storage:write"]), ("map", []), ("off", ["net:off.example:443"])):
        package = native(tmp_path / name, name, capabilities=capabilities)
        grants = [option for capability in capabilities for option in ("--grant", capability)]
        paddock.quickly("plugin", "install", package, "--yes", *grants)
        if name != "off":
            paddock.quickly("plugin", "enable", name, "--no-start")
    paddock.quickly("user", "add", "ann")
    with daemon(paddock) as served:
        operator, ann = signed_in(served, "operator"), signed_in(served, "ann")
        page = operator.get("/map").text
        assert "any host" in page
        assert "It can send what it reads to any host." in page
        assert 'href="/plugins/oats"' in page
        assert "off.example" not in page
        assert "oats" not in operator.get("/map?find=map").text.partition("As a table")[2]
        assert "No enabled plugin has this name" in operator.get("/map?find=%3Cx%3E").text
        assert operator.get("/plugins/map").status == 200
        assert ann.get("/map").status == 403
