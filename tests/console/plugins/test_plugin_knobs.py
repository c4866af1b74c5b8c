"""Knobs at the console: every type there and back, all or nothing, and nothing of somebody else turned back."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.tuner import KNOBS, tuner
from fixtures.visitors import needs_a_browser, visiting
from paddock.console.pages.plugins.knob_form import INITIAL_VALUES_FIELD, build_knob_control, parse_knob_form

PAGE = "/plugins/tuner/settings"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("knobs")
    paddock = Paddock(folder / "home")
    plain: dict[str, Any] = {"knobs": {}, "config_schema": {"type": "object", "properties": {}}}
    paddock.quickly("plugin", "install", tuner(folder / "tuner"), "--yes")
    paddock.quickly("plugin", "install", tuner(folder / "plain", name="plain", **plain), "--yes")
    paddock.quickly("plugin", "enable", "tuner", "--no-start")
    paddock.quickly("user", "add", "ann")
    with daemon(paddock) as started:
        yield started


def given_to_the_plugin(served: Daemon) -> dict[str, Any]:
    return served.paddock.quickly("call", "tuner.tell", "--json").json["result"]["config"]


def save(page: Page) -> None:
    page.get_by_role("button", name="Save").click()


@pytest.mark.req("G-37", "plugin settings")
@needs_a_browser
def test_a_knob_of_every_type_goes_from_the_page_to_the_plugin_and_back(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto(PAGE)
        page.get_by_label("Warmth", exact=True).fill("0.7")
        page.get_by_label("Turns", exact=True).fill("7")
        page.get_by_label("Budget", exact=True).select_option("high")
        page.get_by_role("switch", name="Loud").check()
        page.get_by_label("Colour", exact=True).fill("red")
        page.get_by_label("Notes", exact=True).fill("\none\n\ntwo")
        page.get_by_label("Model", exact=True).fill("")
        page.get_by_label("Store", exact=True).fill("config:/elsewhere")
        save(page)
        expect(page.get_by_text("Saved.", exact=True)).to_be_visible()

        wanted = {"warmth": 0.7, "turns": 7, "budget": "high", "loud": True, "colour": "red", "notes": "\none\n\ntwo"}
        given = given_to_the_plugin(served)
        assert given | wanted == given
        assert given["model"] is None
        assert given["store"].endswith("/elsewhere")
        expect(page.get_by_label("Turns", exact=True)).to_have_value("7")
        expect(page.get_by_label("Notes", exact=True)).to_have_value("\none\n\ntwo")
        expect(page.get_by_text("changed", exact=True)).to_have_count(len(KNOBS))

        page.get_by_role("button", name="Reset Turns to its default").click()
        expect(page.get_by_text("Reset to the default.", exact=True)).to_be_visible()
        assert given_to_the_plugin(served) | {"turns": 3, "colour": "red"} == given_to_the_plugin(served)
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Reset all").click()
        expect(page.get_by_text("changed", exact=True)).to_have_count(0)
        assert given_to_the_plugin(served)["colour"] == "grey"


@needs_a_browser
def test_mistakes_stand_at_their_fields_with_what_was_typed_and_nothing_is_saved(
    browser: Browser, served: Daemon
) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto(PAGE)
        page.get_by_label("Warmth", exact=True).fill("0.2")
        page.get_by_label("Turns", exact=True).fill("13")
        page.get_by_label("Colour", exact=True).fill("Mauve!")
        page.get_by_label("Store", exact=True).fill("config:/../up")
        save(page)

        expect(page.get_by_role("alert")).to_contain_text("3 mistakes")
        for label, typed in {"Turns": "13", "Colour": "Mauve!", "Store": "config:/../up"}.items():
            expect(page.get_by_label(label, exact=True)).to_have_value(typed)
            expect(page.get_by_label(label, exact=True)).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_label("Warmth", exact=True)).to_have_value("0.2")
        assert given_to_the_plugin(served)["warmth"] == 0.5

        page.get_by_label("Turns", exact=True).fill("4")
        page.get_by_label("Store", exact=True).fill("config:/memory")
        page.get_by_label("Colour", exact=True).fill("puce")  # the plugin itself takes no such colour
        save(page)
        expect(page.get_by_role("alert")).to_contain_text("no such colour")
        expect(page.get_by_label("Turns", exact=True)).to_have_value("4")
        assert given_to_the_plugin(served)["turns"] == 3


@needs_a_browser
def test_what_somebody_else_turned_meanwhile_stays(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator", java_script_enabled=False) as page:
        page.goto(PAGE)
        served.paddock.quickly("plugin", "knob", "tuner", "turns=9")
        page.get_by_label("Colour", exact=True).fill("blue")
        page.get_by_label("Colour", exact=True).press("Enter")
        expect(page.get_by_text("Saved.", exact=True)).to_be_visible()

        assert given_to_the_plugin(served) | {"turns": 9, "colour": "blue"} == given_to_the_plugin(served)
        served.paddock.quickly("plugin", "knob", "tuner", "--reset", "turns", "--reset", "colour")


@needs_a_browser
def test_a_plugin_without_knobs_says_so_and_members_are_refused(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/plain/settings")
        expect(page.get_by_text("has no knobs")).to_be_visible()
    with visiting(browser, served, "ann") as page:
        for place in (PAGE, "/plugins/tuner/logs"):
            answer = page.goto(place)
            assert answer is not None
            assert answer.status == 403, place


def knob(kind: str, value: Any, **options: Any) -> dict[str, Any]:
    about = {"name": "k", "type": kind, "label": "K", "description": "", "accepts": {}, "options": options}
    return about | {"binds_to": "config.k", "set": True, "default": options.get("default"), "value": value}


def test_a_slider_is_none_where_it_would_move_the_value() -> None:
    options = {"min": 0, "max": 1, "step": 0.1, "default": 0.5}
    accepts = {"type": "number", "minimum": 0, "maximum": 1}
    controls = {
        value: build_knob_control([knob("range", value, **options) | {"accepts": accepts}]).fields[0][1].control
        for value in (0.3, 0.55, 7, None)
    }

    assert controls == {0.3: "range", 0.55: "number", 7: "number", None: "number"}


def test_what_is_empty_is_the_default_and_an_empty_text_a_value() -> None:
    number = knob("int_range", 4, min=1, max=9, step=5) | {"accepts": {"type": "integer"}}
    text = knob("text", "a") | {"name": "t", "accepts": {"type": "string"}}
    knobs = [number, text]

    turn = parse_knob_form(
        knobs, build_knob_control(knobs), {"/k": [""], "/t": [""], INITIAL_VALUES_FIELD: ["no JSON"]}
    ).turn

    assert (turn.values, turn.reset) == ({"t": ""}, ("k",))
