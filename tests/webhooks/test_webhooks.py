"""Webhooks as people use them: the command line, a real daemon, and a receiver on loopback that checks signatures."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.webhooks.receiver import Got, Receiver, receiving, signature

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, doomed, eventually
from fixtures.prepared_homes import enabled_parrot, prepare_home

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = {"PADDOCK_EVENTS_PRIVATE_RECEIVERS": "127.0.0.1", "PADDOCK_EVENTS_FIRST_PAUSE_S": "0.05"}


@pytest.fixture
def receiver() -> Generator[Receiver, None, None]:
    with receiving() as started:
        yield started


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    return Paddock(tmp_path / "home", more=QUICK)


def hooked(paddock: Paddock, receiver: Receiver, *options: str) -> str:
    """A webhook to the receiver, which knows its secret."""
    made = paddock("webhook", "add", receiver.url(), "--json", *options).json
    receiver.secrets.append(made["secret"])
    return made["id"]


def happen(paddock: Paddock, *names: str) -> None:
    """Something that the ledger keeps, once for each name."""
    for name in names:
        paddock.quickly("group", "add", name)


def groups(got: list[Got]) -> list[str]:
    return [one.event["data"]["group"] for one in got if one.kind == "group.changed"]


@pytest.mark.req("O-16", "CloudEvents")
@pytest.mark.req("O-16", "signed")
def test_an_event_reaches_a_webhook_as_a_signed_cloud_event_that_names_its_tenant_and_no_person(
    paddock: Paddock, receiver: Receiver
) -> None:
    hook = hooked(paddock, receiver, "--type", "group.*")
    with daemon(paddock):
        happen(paddock, "cooks")
        (got,) = receiver.of("group.changed")

    assert got.signed_by == tuple(receiver.secrets)
    assert got.headers["content-type"] == "application/cloudevents+json"
    event = got.event
    assert {name: event[name] for name in ("specversion", "type", "source", "datacontenttype", "tenant")} == {
        "specversion": "1.0",
        "type": "dev.paddock.group.changed",
        "source": "urn:paddock:default",
        "datacontenttype": "application/json",
        "tenant": "default",
    }
    entry = next(one for one in paddock("ledger", "tail", "--json").json["entries"] if one["type"] == "group.changed")
    assert (event["id"], event["time"], event["sequence"]) == (entry["id"], entry["at"], str(entry["seq"]))
    assert got.id == entry["id"], "by which a receiver knows what it has had"
    assert event["data"] == {"group": "cooks", "change": "added"}, "who did it is personal, and stays"
    assert entry["personal"]["by"], "which the ledger knows"
    shown = paddock("webhook", "show", hook, "--json").json
    assert (shown["delivered"], shown["reason"], shown["next_at"]) == (1, None, None)


@pytest.mark.req("O-16", "documented events")
def test_the_names_of_the_seed_reach_who_asks_for_them_with_exactly_its_fields(
    paddock: Paddock, receiver: Receiver, tmp_path: Path
) -> None:
    prepare_home(paddock, enabled_parrot)
    paddock("webhook", "add", receiver.url("/tools"), "--type", "dev.paddock.plugin.tool_invoked")
    paddock("webhook", "add", receiver.url("/all"), "--type", "*")
    with daemon(paddock) as served:
        served.ask("POST", "/plugins/parrot/call/say", {"text": "the words of a person"})
        (invoked,) = receiver.of("plugin.tool_invoked")
        (ended,) = receiver.of("call.ended")

    assert (invoked.path, ended.path) == ("/tools", "/all"), "who wants everything is not told the same thing twice"
    data = invoked.event["data"]
    assert set(data) == {"plugin_id", "tool_name", "duration_ms", "success"}
    assert (data["plugin_id"], data["tool_name"], data["success"]) == ("parrot", "say", True)
    assert data["duration_ms"] > 0
    assert ended.event["subject"] == ended.event["data"]["call_id"]
    assert not any(b"the words of a person" in one.body for one in receiver.got), "parameters are in no event"


@pytest.mark.req("O-16", "delivered despite failures")
def test_what_is_not_taken_is_sent_again_under_the_same_id_and_what_is_behind_it_waits(
    paddock: Paddock, receiver: Receiver
) -> None:
    receiver.answers.extend([500, 503, 302])
    hooked(paddock, receiver, "--type", "group.*")
    happen(paddock, "first", "second")
    with daemon(paddock):
        got = receiver.wait_for(lambda got: "second" in groups(got))

    assert groups(got) == ["first"] * 4 + ["second"]
    assert len({one.id for one in got[:4]}) == 1
    assert all(one.signed_by for one in got), "each attempt is signed for itself"


def test_whoever_looks_at_a_webhook_that_fails_is_told_when_it_is_tried_again(
    tmp_path: Path, receiver: Receiver
) -> None:
    paddock = Paddock(tmp_path / "home", more=QUICK | {"PADDOCK_EVENTS_FIRST_PAUSE_S": "600"})
    receiver.answers.append(500)
    hook = hooked(paddock, receiver, "--type", "group.*")
    happen(paddock, "first")
    with daemon(paddock) as started:

        def waiting() -> bool:
            shown = paddock.quickly("webhook", "show", hook, "--json").json
            return shown["next_at"] is not None and shown["next_at"] > shown["failing_at"]

        eventually(waiting, "it is not known when it is tried again")
        shown = paddock.quickly("webhook", "show", hook, "--json").json
        told = started.ask("GET", f"/webhooks/{hook}").body
        words = paddock.quickly("webhook", "show", hook).err

    after = datetime.fromisoformat(shown["next_at"]) - datetime.fromisoformat(shown["failing_at"])
    assert 600 <= after.total_seconds() < 730, "up to a fifth longer"
    assert told == shown
    assert f"it is tried again at {shown['next_at'][:10]} {shown['next_at'][11:19]} UTC" in words


def test_what_was_taken_is_not_sent_again_where_the_answer_never_ends(paddock: Paddock, receiver: Receiver) -> None:
    receiver.answers.append((200, {"Content-Length": "10"}))
    hooked(paddock, receiver, "--type", "group.*")
    happen(paddock, "first", "second")
    with daemon(paddock):
        got = receiver.wait_for(lambda got: "second" in groups(got))

    assert groups(got) == ["first", "second"]


def test_a_receiver_that_asks_for_time_is_given_it(paddock: Paddock, receiver: Receiver) -> None:
    receiver.answers.append((429, {"Retry-After": "2"}))
    hooked(paddock, receiver, "--type", "group.*")
    happen(paddock, "cooks")
    with daemon(paddock):
        first, second = receiver.of("group.changed", 2)

    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) >= 2


def test_a_receiver_that_says_it_is_gone_is_sent_nothing_until_it_is_switched_on(
    paddock: Paddock, receiver: Receiver
) -> None:
    receiver.answers.append(410)
    hook = hooked(paddock, receiver, "--type", "group.*")
    happen(paddock, "first")
    with daemon(paddock):
        eventually(lambda: not paddock.quickly("webhook", "show", hook, "--json").json["enabled"], "it is still on")
        happen(paddock, "second")
        shown = paddock("webhook", "show", hook, "--json").json
        assert (shown["disabled_why"], shown["reason"], len(receiver.got)) == ("gone", "status.410", 1)
        paddock("webhook", "enable", hook)
        got = receiver.wait_for(lambda got: "second" in groups(got))

    assert groups(got) == ["first", "first", "second"], "what happened meanwhile is not lost"
    changes = paddock("ledger", "tail", "--type", "webhook.changed", "--json").json["entries"]
    assert [(one["facts"]["change"], one["facts"].get("reason")) for one in changes] == [
        ("disabled", "gone"),
        ("enabled", None),
    ]


def test_what_is_never_taken_becomes_a_dead_letter_with_its_reason_and_can_be_tried_again(
    tmp_path: Path, receiver: Receiver
) -> None:
    paddock = Paddock(tmp_path / "home", more=QUICK | {"PADDOCK_EVENTS_ATTEMPTS": "2"})
    receiver.answers.extend([500, 500, 422, 422])
    hook = hooked(paddock, receiver, "--type", "*")
    happen(paddock, "first", "second", "third")
    with daemon(paddock):
        got = receiver.wait_for(lambda got: "third" in groups(got))
        assert groups(got) == ["first", "first", "second", "second", "third"], "those behind go on"
        eventually(lambda: paddock.quickly("webhook", "show", hook, "--json").json["delivered"] >= 1, "none is noted")
        dead = paddock("webhook", "dead-letter", "list", hook, "--json").json["dead"]
        assert [(one["type"], one["attempts"], one["reason"]) for one in dead] == [
            ("group.changed", 2, "status.500"),
            ("group.changed", 2, "status.422"),
        ]
        assert dead[0]["event_id"] == got[0].id
        assert "status.422: it answered 422" in paddock("webhook", "dead-letter", "list", hook).err

        assert paddock("webhook", "dead-letter", "retry", hook, dead[0]["event_id"], "--json").json["asked"] == 1
        receiver.wait_for(lambda got: groups(got).count("first") == 3)
        eventually(
            lambda: len(paddock.quickly("webhook", "dead-letter", "list", hook, "--json").json["dead"]) == 1,
            "still dead",
        )
        receiver.answers.append(500)
        paddock("webhook", "dead-letter", "retry", hook, "--all")
        receiver.wait_for(lambda got: groups(got).count("second") == 3)

        def left() -> list[tuple[int, bool]]:
            dead = paddock.quickly("webhook", "dead-letter", "list", hook, "--json").json["dead"]
            return [(one["attempts"], one["again"]) for one in dead]

        eventually(lambda: left() == [(3, False)], "another try in vain is counted, and not made again by itself")

    gave_up = paddock("ledger", "tail", "--type", "webhook.gave_up", "--json").json["entries"]
    assert [one["facts"]["event_id"] for one in gave_up] == [one["event_id"] for one in dead]
    assert not any(one.kind == "webhook.gave_up" for one in receiver.got), "nobody is told by webhook that one failed"
    missing = paddock("webhook", "dead-letter", "retry", hook, "evt_none", "--json", code=3).error
    assert missing["code"] == "webhook.not_dead"


@pytest.mark.req("O-16", "delivered despite failures")
def test_a_daemon_that_is_killed_loses_nothing_and_the_next_goes_on_in_order(
    paddock: Paddock, receiver: Receiver
) -> None:
    hooked(paddock, receiver, "--type", "group.*")
    names = [f"g{number:02}" for number in range(12)]
    happen(paddock, *names)
    with doomed(paddock) as first:
        receiver.wait_for(lambda got: len(got) >= 3)
        receiver.hold = threading.Event()
        receiver.asked.clear()
        assert receiver.asked.wait(60), "nothing is on its way"
        first.process.send_signal(signal.SIGKILL)
        first.ended()
        receiver.hold.set()
    seen = len(receiver.got)
    with daemon(paddock):
        got = receiver.wait_for(lambda got: groups(got)[-1] == names[-1])

    told = groups(got)
    assert list(dict.fromkeys(told)) == names, "each of them, in order"
    assert len(told) <= len(names) + 1, "only what was on its way was sent twice"
    assert seen >= 3


def test_a_receiver_that_does_not_answer_holds_up_neither_others_nor_calls(
    paddock: Paddock, receiver: Receiver, tmp_path: Path
) -> None:
    prepare_home(paddock, enabled_parrot)
    with receiving() as stuck:
        stuck.hold = threading.Event()
        hooked(paddock, stuck, "--type", "group.*")
        hooked(paddock, receiver, "--type", "group.*")
        with daemon(paddock) as served:
            happen(paddock, "one", "two")
            assert stuck.asked.wait(60)
            assert groups(receiver.of("group.changed", 2)) == ["one", "two"]
            assert served.ask("POST", "/plugins/parrot/call/say", {"text": "hello"}).status == 200
            assert stuck.got == []
            stuck.hold.set()
            stuck.of("group.changed", 2)


@pytest.mark.req("B-23", "SSRF")
def test_private_addresses_are_refused_unless_the_settings_name_them_and_no_redirect_is_followed(
    tmp_path: Path, receiver: Receiver
) -> None:
    strict = Paddock(tmp_path / "strict")
    for url in (receiver.url(), "http://169.254.169.254/latest", "https://[::1]:9000/", "http://10.0.0.5/"):
        said = strict.quickly("webhook", "add", url, "--json", code=5).error
        assert said["code"] == "webhook.not_allowed", url
    assert (
        strict.quickly("webhook", "add", "http://93.184.215.14/", "--json", code=5).error["code"] == "webhook.not_https"
    )
    assert strict.quickly("webhook", "add", "ftp://example.com/", "--json", code=6).error["code"] == "http.bad_url"
    named = strict.quickly("webhook", "add", receiver.url(host="localhost"), "--json").json["id"]
    said = strict("webhook", "test", named, "--json", code=1).error
    assert said["details"]["reason"] == "not_allowed", "a name that leads to one is refused when it is looked up"
    assert "in config.toml, as in [events] private_receivers" in said["hint"]
    another = Paddock(tmp_path / "home", more=QUICK | {"PADDOCK_EVENTS_PRIVATE_RECEIVERS": "127.0.0.1:1"})
    assert another.quickly("webhook", "add", receiver.url(), "--json", code=5).error["code"] == "webhook.not_allowed"

    one_port = {"PADDOCK_EVENTS_PRIVATE_RECEIVERS": f"127.0.0.1:{receiver.port}"}
    allowed = Paddock(tmp_path / "strict", more=one_port)
    assert allowed("webhook", "test", named, "--json").json["taken"] is True
    receiver.answers.append((307, {"Location": receiver.url("/elsewhere")}))
    said = allowed("webhook", "test", named, "--json", code=1).error
    assert said["details"]["reason"] == "status.307"
    assert "redirects are not followed" in said["hint"]
    assert [one.path for one in receiver.got] == ["/hook", "/hook"]


def test_a_secret_is_shown_once_and_while_it_is_replaced_both_sign(paddock: Paddock, receiver: Receiver) -> None:
    hook = hooked(paddock, receiver, "--type", "group.*")
    old = receiver.secrets[0]
    paddock("webhook", "test", hook)
    new = paddock("webhook", "rotate", hook, "--json").json["secret"]
    receiver.secrets.append(new)
    paddock("webhook", "test", hook)
    newest = paddock("webhook", "rotate", hook, "--keep", "0", "--json").json["secret"]
    receiver.secrets.append(newest)
    paddock("webhook", "test", hook)

    assert [one.signed_by for one in receiver.got] == [(old,), (old, new), (newest,)]
    told = [
        paddock("webhook", *words, "--json").out for words in (("list",), ("show", hook), ("dead-letter", "list", hook))
    ]
    told.append(paddock("ledger", "export", paddock.home / "ledger.jsonl").out)
    told.append((paddock.home / "ledger.jsonl").read_text())
    told.append(paddock("secret", "list", "--json").out)
    kept = b"".join(file.read_bytes() for file in (paddock.home / "data").glob("paddock.db*"))
    for secret in (old, new, newest):
        assert not any(secret.removeprefix("whsec_") in text for text in told)
        assert secret.removeprefix("whsec_").encode() not in kept, "sealed at rest"
    paddock("webhook", "remove", hook, "--yes")
    assert json.loads(paddock("secret", "list", "--json").out)["secrets"] == []


@pytest.mark.req("B-22", "events")
def test_tenants_hear_of_their_own_events_alone_and_their_operators_alone_have_webhooks(
    paddock: Paddock, receiver: Receiver
) -> None:
    paddock.quickly("tenant", "add", "acme")
    keys = {}
    for name, role in (("omar", "operator"), ("zoe", "member")):
        paddock.quickly("user", "add", name, "--tenant", "acme", "--role", role)
        options = ("--tenant", "acme", "--role", role, "--json")
        keys[name] = paddock.quickly("apikey", "add", name, *options).json["token"]
    with daemon(paddock) as served:
        ours = served.ask("POST", "/webhooks", {"url": receiver.url("/ours"), "types": ["group.*"]}).body["id"]

        def ask(who: str, method: str, path: str, body: Any = None) -> Any:
            return served.ask(method, path, body, authorization=f"Bearer {keys[who]}")

        made = ask("omar", "POST", "/webhooks", {"url": receiver.url("/theirs"), "types": ["group.*"]})
        assert (made.status, made.body["tenant"]) == (201, "acme")
        theirs = made.body["id"]
        happen(paddock, "of-default")
        paddock.quickly("group", "add", "of-acme", "--tenant", "acme")
        got = receiver.of("group.changed", 2)

        assert {(one.path, one.event["tenant"], one.event["data"]["group"]) for one in got} == {
            ("/ours", "default", "of-default"),
            ("/theirs", "acme", "of-acme"),
        }
        assert [one["id"] for one in ask("omar", "GET", "/webhooks").body["webhooks"]] == [theirs]
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/enable"),
            ("POST", "/disable"),
            ("POST", "/rotate"),
            ("POST", "/test"),
            ("GET", "/dead"),
            ("POST", "/retry"),
        ):
            body = {} if method == "POST" else None
            assert ask("omar", method, f"/webhooks/{ours}{path}", body).status == 404, path
            assert ask("zoe", method, f"/webhooks/{theirs}{path}", body).status == 403, path
        assert ask("zoe", "GET", "/webhooks").status == 403
        assert ask("omar", "GET", f"/webhooks/{theirs}").body["delivered"] == 1
        assert ask("omar", "DELETE", f"/webhooks/{theirs}").status == 204


def test_a_type_that_is_never_recorded_is_told_at_once(paddock: Paddock, receiver: Receiver) -> None:
    said = paddock("webhook", "add", receiver.url(), "--type", "call.endet", "--json", code=6).error
    assert (said["code"], "call.endet" in said["message"]) == ("events.type", True)


@pytest.mark.req("O-16", "signed")
def test_the_receiver_of_the_examples_believes_what_is_signed_and_nothing_else(paddock: Paddock) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    made = paddock("webhook", "add", url, "--type", "group.*", "--json").json
    program = [sys.executable, "-u", str(EXAMPLES / "webhook_receiver.py"), str(port)]
    environment = os.environ | {"WEBHOOK_SECRET": f"whsec_AAAA {made['secret']}"}
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        try:
            assert started.stdout.readline() == f"listening on {port}\n"
            with daemon(paddock):
                happen(paddock, "cooks")
                assert started.stdout.readline().split()[1:] == ["dev.paddock.group.changed", "-"]
            body = b'{"id": "evt_x", "type": "made up"}'
            stamp = str(int(time.time()))
            headers = {"webhook-id": "evt_x", "webhook-timestamp": stamp, "webhook-signature": "v1,AAAA"}
            assert _posted(port, body, headers) == 401
            headers["webhook-signature"] = signature(made["secret"], "evt_x", stamp, body)
            assert _posted(port, body, headers) == 204
            old = str(int(stamp) - 1000)
            headers |= {
                "webhook-timestamp": old,
                "webhook-signature": signature(made["secret"], "evt_x", old, body),
            }
            assert _posted(port, body, headers) == 401, "what somebody recorded is not taken again later"
        finally:
            started.kill()


def _posted(port: int, body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", "/", body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
