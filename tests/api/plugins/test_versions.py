"""Versions and activation over HTTP, in OSQR's shapes: at its own addresses with its own errors, and at ours."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.parrot import parrot


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    """A daemon with a parrot that was upgraded once."""
    folder = tmp_path_factory.mktemp("versions")
    paddock = Paddock(folder / "home")
    paddock("plugin", "install", parrot(folder / "one", title="Parrot"), "--yes")
    paddock("plugin", "upgrade", "parrot", parrot(folder / "two", version="1.1.0", title="Parrot"), "--yes")
    paddock("plugin", "enable", "parrot")
    with daemon(paddock) as started:
        yield started


@pytest.mark.req("O-14", "pin")
@pytest.mark.req("O-15", "pin")
@pytest.mark.parametrize("prefix", ["/api/v1", "/api"])
def test_a_plugin_is_held_at_a_version_and_let_go_again(served: Daemon, prefix: str) -> None:
    pinned = served.ask("POST", f"{prefix}/plugins/parrot/pin", {"version": "1.0.0"})

    held_at = {"success": True, "name": "parrot", "pinned_version": "1.0.0", "version": "1.0.0"}
    assert (pinned.status, pinned.body) == (200, held_at)
    shown = served.ask("GET", "/plugins/parrot").body
    assert (shown["pinned"], shown["version"], shown["runtime"]["state"]) == ("1.0.0", "1.0.0", "running")
    held = served.ask("POST", "/plugins/parrot/rollback", {})
    assert (held.status, held.body["code"]) == (409, "plugin.pinned")
    free = served.ask("POST", f"{prefix}/plugins/parrot/pin", {"version": None}).body
    assert free == {"success": True, "name": "parrot", "pinned_version": None, "version": "1.1.0"}
    assert served.ask("GET", "/ledger?type=plugin.pinned").body["entries"][0]["plugin"] == "parrot"


@pytest.mark.req("O-14", "rollback")
def test_a_plugin_goes_back_to_the_version_before_and_runs_as_that(served: Daemon) -> None:
    back = served.ask("POST", "/plugins/parrot/rollback", {})

    assert (back.status, back.body) == (200, {"success": True, "old_version": "1.1.0", "version": "1.0.0"})
    shown = served.ask("GET", "/plugins/parrot").body
    assert (shown["version"], shown["runtime"]["state"]) == ("1.0.0", "running")
    assert served.ask("POST", "/plugins/parrot/call/say", {"text": "still"}).status == 200
    none = served.ask("POST", "/plugins/parrot/rollback", {"version": "0.1.0"})
    assert (none.status, none.body["code"]) == (404, "plugin.no_such_version")


@pytest.mark.req("O-19")
@pytest.mark.req("O-03", "confirmed by the user")
def test_errors_at_the_addresses_of_osqr_are_its_plugin_errors(served: Daemon) -> None:
    for answer in (
        served.ask("POST", "/api/plugins/nobody/activate", {"user_confirmation": True}),
        served.ask("POST", "/api/plugins/nobody/pin", {"version": "1.0.0"}),
    ):
        assert (answer.status, answer.headers["content-type"]) == (404, "application/json")
        assert answer.body["code"] == "PLUGIN_NOT_FOUND"
        assert answer.body["recoverable"] is True and answer.body["suggested_action"]
        assert "nobody" in answer.body["message"]
    wrong = served.ask("POST", "/api/plugins/parrot/pin", {"version": 1})
    assert (wrong.status, wrong.body["code"]) == (400, "INVALID_PARAMS")
    unsure = served.ask("POST", "/api/plugins/parrot/activate", {"user_confirmation": False})
    assert (unsure.status, unsure.body["plugin_id"], unsure.body["recoverable"]) == (403, "parrot", True)
    assert set(unsure.body) == {"code", "message", "plugin_id", "recoverable", "suggested_action"}


@pytest.mark.req("O-15", "activate")
@pytest.mark.req("O-15", "deactivate")
@pytest.mark.req("O-15", "active")
@pytest.mark.parametrize("prefix", ["/api/v1", "/api"])
def test_a_plugin_is_switched_off_and_on_and_listed_while_it_is_on(served: Daemon, prefix: str) -> None:
    def active() -> dict[str, list[str]]:
        found = served.ask("GET", f"{prefix}/plugins/active").body["plugins"]
        assert all(one["name"] == "Parrot" and one["activated_at"] for one in found)
        return {one["id"]: one["tools"] for one in found}

    assert "say" in active()["parrot"]
    off = served.ask("POST", f"{prefix}/plugins/parrot/deactivate")
    assert (off.status, off.body["success"]) == (200, True) and "parrot" in off.body["transition_message"]
    assert active() == {}
    on = served.ask("POST", f"{prefix}/plugins/parrot/activate", {"user_confirmation": True})
    assert (on.status, on.body["success"], on.body["resources_available"]) == (200, True, [])
    assert on.body["tools_available"] == active()["parrot"]
    assert on.body["behavioral_summary"] == "Parrot changes nothing about how I answer."
