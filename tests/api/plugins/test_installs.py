"""Installing over HTTP: a package is fetched, a person is shown what it would do, and their consent installs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fixtures.daemons import Daemon, LocalConnection, eventually
from fixtures.packages import native
from fixtures.people import Peopled, from_browser, signed_in

API = "net:api.example.com:443"


def waiting(served: Daemon, install: str) -> dict[str, Any]:
    """The installation once it waits for consent."""
    with served.following(f"/installs/{install}/events") as events:
        return next(event["data"] for event in events if event["data"]["stage"] == "waiting")


def test_a_package_is_installed_by_the_consent_to_what_was_shown_and_by_no_other(
    peopled: Peopled, tmp_path: Path
) -> None:
    served = peopled.daemon
    started = served.ask("POST", "/installs", {"source": str(native(tmp_path / "notes", capabilities=["net:*", API]))})
    assert (started.status, started.headers["location"]) == (202, f"/api/v1/installs/{started.body['id']}")
    one = f"/installs/{started.body['id']}"

    proposal = waiting(served, started.body["id"])["proposal"]
    assert (proposal["action"], proposal["screen"]["question"]) == ("installed", "Install notes 1.0.0?")
    assert [other["id"] for other in served.ask("GET", "/installs").body["installs"]] == [started.body["id"]]
    shown = {"digest": proposal["terms"]["digest"], "signature": proposal["terms"]["signature"]}
    less = served.ask("POST", f"{one}/confirm", shown)
    assert (less.status, less.body["details"]["capabilities"]) == (403, proposal["terms"]["capabilities"])
    other = served.ask("POST", f"{one}/confirm", shown | {"digest": "sha256:0"})
    assert (other.status, other.body["code"]) == (403, "plugin.package_changed")

    consent = shown | {"grant": proposal["terms"]["capabilities"]}
    assert proposal["terms"]["dangers"] == proposal["screen"]["dangers"] != []
    named = [danger["capability"] for danger in proposal["terms"]["dangers"]]
    unnamed = served.ask("POST", f"{one}/confirm", consent | {"accept_dangers": named[:1]})
    assert (unnamed.status, unnamed.body["code"]) == (403, "consent.dangers")
    assert unnamed.body["details"]["dangers"] == proposal["terms"]["dangers"][1:]
    consent |= {"accept_dangers": named}
    assert served.ask("POST", f"{one}/confirm", consent).body["stage"] == "changing"
    with served.following(f"{one}/events") as events:
        assert list(events)[-1]["data"]["stage"] == "done"
    assert served.ask("GET", one).body["outcome"]["name"] == "notes"
    assert served.ask("GET", "/plugins/notes").body["state"] == "disabled"
    assert served.ask("POST", f"{one}/confirm", consent).body["code"] == "install.decided"


def test_an_installation_that_is_cancelled_or_whose_client_leaves_changes_nothing(
    peopled: Peopled, tmp_path: Path
) -> None:
    served, body = peopled.daemon, {"source": str(native(tmp_path / "other", "other"))}
    first = served.ask("POST", "/installs", body).body["id"]
    waiting(served, first)
    assert served.ask("POST", f"/installs/{first}/cancel").body["stop_reason"] == "cancelled"

    connection = LocalConnection(served.socket)
    connection.request("POST", "/api/v1/installs", json.dumps(body), {"accept": "text/event-stream"})
    second = connection.getresponse().headers["content-location"].rpartition("/")[2]
    waiting(served, second)
    connection.close()
    eventually(lambda: served.ask("GET", f"/installs/{second}").body["stage"] == "cancelled", "it goes on")
    assert served.ask("GET", "/plugins/other").status == 404


def test_a_program_with_the_key_of_an_operator_neither_starts_nor_confirms_nor_cancels_one(
    peopled: Peopled, tmp_path: Path
) -> None:
    body = {"source": str(native(tmp_path / "other", "other"))}
    one = peopled.daemon.ask("POST", "/installs", body).body["id"]

    for path, sent in (
        ("/installs", {"source": "pypi:anything"}),
        (f"/installs/{one}/confirm", {"digest": "", "signature": ""}),
        (f"/installs/{one}/cancel", None),
    ):
        refused = peopled.ask("olga", "POST", path, sent)
        assert (refused.status, refused.body["code"]) == (403, "auth.person_needed")
        member = peopled.ask("ann", "POST", path, sent)
        assert (member.status, member.body["code"]) == (403, "auth.not_for_you")
        assert "no API key is enough" in member.body["hint"]
    peopled.daemon.ask("POST", f"/installs/{one}/cancel")


def test_a_person_elsewhere_does_not_have_the_disk_of_the_machine_read(peopled: Peopled, tmp_path: Path) -> None:
    url = peopled.daemon.paddock.quickly("login", "--user", "olga", "--json").json["url"]
    signed_in = peopled.daemon.ask_tcp("POST", f"//login/{url.rpartition('/')[2]}")
    headers = {
        "cookie": signed_in.headers["set-cookie"].partition(";")[0],
        "origin": "http://{}:{}".format(*peopled.daemon.tcp),
    }
    package = native(tmp_path / "other", "other")

    for body in (
        {"source": str(package)},
        {"source": f"git+file://{package}"},
        {"source": str(tmp_path / "nowhere")},
        {"source": "parrot"},
        {"upgrade": "parrot"},
        {"settings_file": str(tmp_path / "nowhere.json"), "server": "time"},
    ):
        refused = peopled.daemon.ask_tcp("POST", "/installs", body, **headers)
        assert (refused.status, refused.body["code"]) == (403, "source.local_only"), body
    unknown = peopled.daemon.ask_tcp("POST", "/installs", {"source": "https://example.org/x"}, **headers)
    assert unknown.body["code"] == "source.unknown"


def test_what_names_no_package_is_a_mistake_in_the_body(peopled: Peopled) -> None:
    server = {"settings_file": "/x.json", "server": "time"}
    for body, path in (
        ({}, "source"),
        ({"settings_file": "/x.json"}, "server"),
        (server | {"settings_file": "x.json"}, "settings_file"),
        (server | {"grant": ["net:api.example.com:443"]}, "grant"),
        (server | {"source": "pypi:mcp-server-time"}, "source"),
        ({"source": ""}, "source"),
    ):
        refused = peopled.daemon.ask("POST", "/installs", body)
        assert (refused.status, [one["path"] for one in refused.body["errors"]]) == (400, [path])


def test_a_program_with_the_key_of_an_operator_grants_nothing_on_the_way_back_to_an_older_version(
    peopled: Peopled,
) -> None:
    refused = peopled.ask("olga", "POST", "/plugins/parrot/rollback", {"grant": ["net:api.example.com:443"]})

    assert (refused.status, refused.body["code"]) == (403, "auth.person_needed")


def test_an_operator_of_another_tenant_neither_sees_nor_decides_what_is_installed(
    peopled: Peopled, tmp_path: Path
) -> None:
    omar = signed_in(peopled, "omar", "--tenant", "acme")
    one = peopled.daemon.ask("POST", "/installs", {"source": str(native(tmp_path / "other", "other"))}).body["id"]

    for method, path, body in (
        ("POST", "/installs", {"source": "pypi:anything"}),
        ("GET", "/installs", None),
        ("GET", f"/installs/{one}", None),
        ("GET", f"/installs/{one}/events", None),
        ("POST", f"/installs/{one}/confirm", {"digest": "", "signature": ""}),
        ("POST", f"/installs/{one}/cancel", None),
    ):
        refused = from_browser(peopled, omar, method, path, body)
        assert (refused.status, refused.body["code"]) == (403, "auth.not_for_you"), path
    peopled.daemon.ask("POST", f"/installs/{one}/cancel")
