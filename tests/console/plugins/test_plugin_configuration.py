"""A plugin's configuration at the console: set, replaced and cleared, and a secret never comes back to anybody."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.tuner import tuner
from fixtures.visitors import needs_a_browser, visiting
from paddock.config.plugin_fields import declared_fields, prepare_for_file
from paddock.console.pages.plugins.configuration_form import (
    INITIAL_VALUES_FIELD,
    build_configuration_control,
    parse_configuration_form,
    visible_values,
)
from paddock.host.plugins.configuration.config import FieldState, PluginConfiguration

PAGE = "/plugins/weather/settings"
CANARY = "canary-7f3a9b2c"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["api_key", "city"],
    "properties": {
        "api_key": {"type": "string", "minLength": 4, "title": "Key"},
        "pins": {"type": "array", "items": {"type": "integer"}, "x-secret": True},
        "city": {"type": "string", "description": "Where you are"},
        "endpoint": {"type": "string", "default": "https://api.example.com"},
        "retries": {"type": "integer", "minimum": 0, "maximum": 9, "default": 3},
    },
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("configuration")
    paddock = Paddock(folder / "home")
    weather = tuner(folder / "weather", name="weather", system_config_schema=SCHEMA)
    paddock.quickly("plugin", "install", weather, "--yes")
    paddock.quickly("user", "add", "ann")
    with daemon(paddock) as started:
        yield started


def given_to_the_plugin(served: Daemon) -> dict[str, Any]:
    return served.paddock.quickly("call", "weather.tell", "--json").json["result"]["config"]


@pytest.mark.req("G-37", "plugin settings")
@needs_a_browser
def test_what_is_missing_is_named_set_and_reaches_the_plugin_and_no_page_shows_the_secret(
    browser: Browser, served: Daemon
) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/weather")
        page.get_by_role("button", name="Enable").click()
        page.get_by_role("button", name="Configure it").click()
        expect(page.get_by_text("still needs 2 values")).to_be_visible()
        expect(page.get_by_role("heading", name="Set by its author")).to_be_visible()
        page.get_by_label("Key", exact=True).fill(CANARY)
        page.get_by_label("City", exact=True).fill("${HOME} town")
        page.get_by_role("button", name="Save configuration").click()
        expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
        expect(page.get_by_text("still needs")).to_have_count(0)
        expect(page.get_by_label("Key", exact=True)).to_have_value("")
        expect(page.get_by_label("City", exact=True)).to_have_value("${HOME} town")

        page.goto("/plugins/weather")
        page.get_by_role("button", name="Enable").click()
        expect(page.get_by_role("status")).to_have_text("It is enabled.")
        given = given_to_the_plugin(served)
        assert (given["api_key"], given["city"], given["retries"]) == (CANARY, "${HOME} town", 3)

        page.goto(PAGE)  # a running plugin is told, and an empty secret stays as it is
        page.get_by_label("Retries", exact=True).fill("5")
        page.get_by_role("button", name="Save configuration").click()
        expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
        assert given_to_the_plugin(served) | {"api_key": CANARY, "retries": 5} == given_to_the_plugin(served)

        tabs = ("", "/settings", "/logs", "/logs/text", "/calls")
        record = ("/", "/plugins", "/ledger", "/ledger?type=plugin.configured")
        for place in (*record, *(f"/plugins/weather{tab}" for tab in tabs)):
            assert CANARY not in page.request.get(place).text(), place
        files = [path for path in served.paddock.home.rglob("*") if path.is_file()]
        assert files
        assert not any(CANARY.encode() in path.read_bytes() for path in files)


@needs_a_browser
def test_a_secret_with_a_mistake_is_neither_repeated_nor_kept_and_can_be_cleared(
    browser: Browser, served: Daemon
) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto(PAGE)
        page.get_by_label("Key", exact=True).fill(CANARY)
        page.get_by_label("City", exact=True).fill("Oslo")
        page.get_by_role("button", name="Save configuration").click()
        expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
        page.get_by_label("Key", exact=True).fill("xyz")
        page.get_by_label("Pins", exact=True).fill(f"1\n{CANARY}")
        page.get_by_label("Retries", exact=True).fill("70")
        page.get_by_role("button", name="Save configuration").click()

        expect(page.get_by_role("alert")).to_contain_text("mistake")
        assert CANARY not in page.content()
        assert "xyz" not in page.content()
        expect(page.get_by_label("Pins", exact=True)).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_text("Type it again").first).to_be_visible()
        expect(page.get_by_label("Retries", exact=True)).to_have_value("70")

        page.get_by_label("Retries", exact=True).fill("7")
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Clear api_key").click()
        expect(page.get_by_text("Cleared.", exact=True)).to_be_visible()
        expect(page.get_by_text("still needs 1 value")).to_be_visible()


@needs_a_browser
def test_who_changed_it_is_recorded_and_a_member_is_refused(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto(PAGE)
        page.get_by_label("Endpoint", exact=True).fill("https://weather.example")
        page.get_by_role("button", name="Save configuration").click()
        expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
    newest = served.ask("GET", "/ledger?type=plugin.configured").body["entries"][0]
    assert newest["facts"] | {"name": "weather", "fields": ["endpoint"]} == newest["facts"]
    assert newest["personal"]["principal"].startswith("local:")
    with visiting(browser, served, "ann") as page:
        answer = page.goto(PAGE)
        assert answer is not None
        assert answer.status == 403


# --- without a daemon -------------------------------------------------------------------------------------------------


def known(**written: FieldState) -> PluginConfiguration:
    states = [written.get(field.name) or FieldState(field, set=False) for field in declared_fields(SCHEMA)]
    return PluginConfiguration("weather", "1.0.0", Path("local.toml"), SCHEMA, tuple(states))


def state(name: str, value: Any) -> FieldState:
    field = next(one for one in declared_fields(SCHEMA) if one.name == name)
    return FieldState(field, set=True, hidden=field.secret, value=None if field.secret else value)


def test_only_what_was_changed_is_written_and_what_was_emptied_is_forgotten() -> None:
    have = known(api_key=state("api_key", "s"), city=state("city", "Ulm"), retries=state("retries", 4))
    sent = {"/api_key": [""], "/city": [""], "/retries": ["4"], "/endpoint": ["https://api.example.com"]}

    filled = parse_configuration_form(have, build_configuration_control(have), sent)

    assert visible_values(have) == {"city": "Ulm", "retries": 4}
    assert (dict(filled.values), filled.cleared) == ({}, ("city",))


def test_what_somebody_else_set_meanwhile_is_not_set_back() -> None:
    have = known(city=state("city", "Bonn"))

    filled = parse_configuration_form(
        have, build_configuration_control(have), {"/city": ["Ulm"], INITIAL_VALUES_FIELD: ['{"city": "Ulm"}']}
    )

    assert (dict(filled.values), filled.cleared) == ({}, ())


def test_a_text_never_means_a_variable_of_the_machine_and_may_name_a_secret() -> None:
    kept, problems = prepare_for_file(
        SCHEMA, {"city": "${HOME}", "endpoint": "${secret:MINE}", "retries": 90, "odd": 1}
    )

    assert kept == {"city": "$${HOME}", "endpoint": "${secret:MINE}"}
    assert [one.path for one in problems] == ["retries", "odd"]


def test_a_mistake_in_a_secret_does_not_repeat_it() -> None:
    _, problems = prepare_for_file(SCHEMA, {"api_key": "abc", "pins": [CANARY]})

    assert len(problems) == 2
    assert not any("abc" in str(one) or CANARY in str(one) for one in problems)
