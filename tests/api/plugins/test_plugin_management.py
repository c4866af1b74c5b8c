"""Plugins managed over HTTP: granted, configured, named otherwise, repaired and removed, by people who may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import eventually
from fixtures.packages import native
from fixtures.people import Peopled, from_browser, signed_in
from fixtures.tuner import tuner

API = "net:api.example.com:443"
SCHEMA = {
    "type": "object",
    "properties": {
        "api_key": {"type": "string", "x-secret": True},
        "port": {"type": "integer"},
        "region": {"type": "string"},
    },
}


@pytest.fixture(scope="module")
def managed(peopled: Peopled, tmp_path_factory: pytest.TempPathFactory) -> Peopled:
    package = native(tmp_path_factory.mktemp("notes"), system_config_schema=SCHEMA, capabilities=[API])
    peopled.daemon.paddock.quickly("plugin", "install", package, "--yes", "--grant", API)
    return peopled


@pytest.fixture(scope="module")
def cookies(managed: Peopled) -> dict[str, str]:
    return {"olga": signed_in(managed, "olga"), "omar": signed_in(managed, "omar", "--tenant", "acme")}


def test_programs_with_a_key_change_nothing(managed: Peopled) -> None:
    for method, path, body in (
        ("PUT", "/plugins/notes/configuration", {"values": {"region": "eu"}}),
        ("POST", "/plugins/notes/enable", {"grant": [API]}),
        ("POST", "/plugins/notes/repair", {}),
        ("POST", "/plugins/notes/remove", {"dry_run": True}),
        ("PUT", "/aliases/jot", {"plugin": "notes"}),
        ("DELETE", "/aliases/jot", None),
    ):
        refused = managed.ask("olga", method, path, body)
        assert (refused.status, refused.body["code"]) == (403, "auth.person_needed"), path
        assert managed.ask("ann", method, path, body).body["code"] == "auth.not_for_you", path


def test_what_is_configured_is_read_as_declared_and_a_secret_never_comes_back(
    managed: Peopled, cookies: dict[str, str]
) -> None:
    path = "/plugins/notes/configuration"
    values = {"api_key": "hunter2", "port": "8080", "region": "${HOME}"}
    changed = from_browser(managed, cookies["omar"], "PUT", path, {"values": values})
    assert changed.status == 200, changed
    assert (changed.body["sealed"], changed.body["in_clear"], changed.body["file"]) == (["api_key"], [], None)

    shown = managed.ask("omar", "GET", path)
    fields = {field["key"]: field for field in shown.body["fields"]}
    assert "hunter2" not in str(shown.body) and fields["api_key"]["set"] is True
    # A variable of the host is for those who are at its machine.
    assert (fields["port"]["value"], fields["region"]["value"]) == (8080, "${HOME}")
    assert fields["region"]["problems"] == []
    assert [field["set"] for field in managed.ask("olga", "GET", path).body["fields"]] == [False] * 3
    absent = managed.ask("omar", "GET", f"{path}?field=regio")
    assert (absent.status, absent.body["code"]) == (404, "config.no_such_field")
    assert managed.daemon.ask("GET", f"{path}?tenant=acme").body["file"].endswith("acme.toml")

    wrong = from_browser(managed, cookies["omar"], "PUT", path, {"values": {"port": "hunter3"}})
    assert (wrong.status, wrong.body["code"]) == (400, "config.plugin_invalid")
    assert "hunter3" not in str(wrong.body)
    untyped = from_browser(managed, cookies["omar"], "PUT", path, {"values": {"api_key": ["hunter4"]}})
    assert (untyped.status, "hunter4" in str(untyped.body)) == (400, False)
    forgotten = from_browser(managed, cookies["omar"], "PUT", path, {"forget": ["port", "api_key"]})
    assert sorted(forgotten.body["forgotten"]) == ["api_key", "port"]


def test_a_tenant_is_shown_what_it_would_grant_without_paths_of_this_machine(managed: Peopled) -> None:
    state = managed.ask("omar", "GET", "/plugins/notes/grant").body

    assert (state["name"], state["granted_before"]) == ("notes", False)
    assert state["requested"] == state["missing"] == [API]
    assert state["screen"]["facts"]["source"] == "directory"
    ours = managed.daemon.ask("GET", "/plugins/notes/grant").body
    assert (ours["granted_before"], ours["missing"]) == (True, [])
    assert Path(ours["screen"]["facts"]["source"].removeprefix("directory ")).is_absolute()


def test_a_person_grants_a_plugin_what_it_requests_and_a_key_does_not(
    managed: Peopled, cookies: dict[str, str]
) -> None:
    path = "/plugins/notes/grant"
    digest = managed.ask("omar", "GET", path).body["digest"]
    for nothing_or_more in ([], [API]):
        refused = managed.ask("omar", "POST", path, {"grant": nothing_or_more, "digest": digest})
        assert (refused.status, refused.body["code"]) == (403, "auth.person_needed")
    wider = from_browser(managed, cookies["omar"], "POST", path, {"grant": ["net:*"], "digest": digest})
    assert (wider.status, wider.body["code"]) == (400, "capability.not_asked")
    unseen = from_browser(managed, cookies["omar"], "POST", path, {"grant": [API], "digest": "sha256:another"})
    assert (unseen.status, unseen.body["code"]) == (409, "plugin.changed_meanwhile")
    assert managed.ask("omar", "GET", path).body["missing"] == [API]
    granted = from_browser(managed, cookies["omar"], "POST", path, {"grant": [API], "digest": digest}).body
    assert (granted["granted_before"], granted["missing"], granted["screen"]["facts"]["source"]) == (
        True,
        [],
        "directory",
    )


def test_a_running_plugin_that_loses_a_required_value_is_stopped_until_it_is_set_again(
    peopled: Peopled, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
    served, path = peopled.daemon, "/plugins/needy/configuration"
    package = tuner(tmp_path / "needy", name="needy", system_config_schema=schema)
    served.paddock.quickly("plugin", "install", package, "--yes")
    served.ask("PUT", path, {"values": {"token": "hunter2"}})
    assert served.ask("POST", "/plugins/needy/enable", {}).body["state"] == "running"

    assert served.ask("PUT", path, {"forget": ["token"]}).body["missing"] == ["token"]
    assert served.ask("GET", "/plugins/needy").body["runtime"]["state"] == "failed"
    assert served.ask("PUT", path, {"values": {"token": "hunter3"}}).body["missing"] == []
    assert served.ask("GET", "/plugins/needy").body["runtime"]["state"] == "running"

    knob = served.ask("GET", f"{path}?field=turns")
    assert (knob.status, knob.body["code"], knob.body["action"]) == (
        404,
        "config.no_such_field",
        {"kind": "plugin.knob", "arguments": {"plugin": "needy", "knob": "turns"}},
    )


def test_a_running_plugin_whose_secret_is_erased_is_stopped_until_it_is_set_again(
    peopled: Peopled, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"token": {"type": "string"}}}
    served = peopled.daemon
    package = tuner(tmp_path / "sealed", name="sealed", system_config_schema=schema)
    served.paddock.quickly("plugin", "install", package, "--yes")
    served.ask("PUT", "/secrets/shared-token", {"value": "hunter2"})
    served.ask("PUT", "/plugins/sealed/configuration", {"values": {"token": "${secret:shared-token}"}})
    assert served.ask("POST", "/plugins/sealed/enable", {}).body["state"] == "running"

    def runtime() -> dict[str, Any]:
        return served.ask("GET", "/plugins/sealed").body["runtime"]

    assert served.ask("DELETE", "/secrets/shared-token").body["removed"] is True
    eventually(lambda: runtime()["state"] == "failed", "it goes on with what was erased")
    assert "the secret shared-token is not set" in runtime()["reason"]
    served.ask("PUT", "/secrets/shared-token", {"value": "hunter3"})
    eventually(lambda: runtime()["state"] == "running", "it does not come back")


def test_a_plugin_is_enabled_without_being_started(managed: Peopled) -> None:
    enabled = managed.daemon.ask("POST", "/plugins/notes/enable?tenant=acme", {"grant": [API], "start": False}).body

    assert (enabled["state"], enabled["pid"], enabled["on_demand"]) == ("disabled", None, True)
    assert managed.ask("omar", "GET", "/plugins/notes").body["enabled"] is True


def test_another_name_reaches_a_plugin_for_as_long_as_it_stands_for_it(
    managed: Peopled, cookies: dict[str, str]
) -> None:
    added = from_browser(managed, cookies["olga"], "PUT", "/aliases/jot", {"plugin": "notes"})
    assert (added.status, added.body) == (200, {"alias": "jot", "plugin": "notes"})
    assert managed.ask("olga", "GET", "/plugins/jot").body["name"] == "notes"
    taken = from_browser(managed, cookies["olga"], "PUT", "/aliases/notes", {"plugin": "parrot"})
    assert (taken.status, taken.body["code"]) == (409, "alias.taken")
    assert from_browser(managed, cookies["olga"], "DELETE", "/aliases/jot").status == 204
    gone = from_browser(managed, cookies["olga"], "DELETE", "/aliases/jot")
    assert (gone.status, gone.body["code"]) == (404, "alias.not_found")


def test_a_plugin_is_repaired_pinned_and_removed_by_who_operates_the_host(
    managed: Peopled, cookies: dict[str, str]
) -> None:
    program = managed.daemon.paddock.trees / "notes" / "1.0.0" / "run.sh"
    program.chmod(0o755)
    program.write_text("#!/bin/sh\n")
    repaired = from_browser(managed, cookies["olga"], "POST", "/plugins/notes/repair", {})
    assert repaired.body == {"name": "notes", "version": "1.0.0", "restored": ["1.0.0"]}
    assert program.read_text().endswith("exec cat\n")

    assert managed.ask("olga", "POST", "/plugins/notes/pin", {"version": "1\0"}).status == 400
    assert managed.ask("olga", "POST", "/plugins/notes/pin", {}).body["pinned_version"] == "1.0.0"
    assert from_browser(managed, cookies["omar"], "POST", "/plugins/notes/remove", {}).status == 403
    refused = from_browser(managed, cookies["olga"], "POST", "/plugins/notes/remove", {"dry_run": True})
    assert (refused.status, refused.body["code"]) == (409, "plugin.pinned")
    for version, status, code in (("1.0.0", 409, "plugin.pinned"), ("9.9.9", 404, "plugin.no_such_version")):
        body = {"version": version, "dry_run": True}
        refused = from_browser(managed, cookies["olga"], "POST", "/plugins/notes/remove", body)
        assert (refused.status, refused.body["code"]) == (status, code)
    for dry_run in (True, False):
        body = {"force": True, "dry_run": dry_run}
        removed = from_browser(managed, cookies["olga"], "POST", "/plugins/notes/remove", body)
        assert removed.body == {"name": "notes", "version": None, "removed": not dry_run, "purge_pending": False}
    assert managed.ask("olga", "GET", "/plugins/notes").status == 404
