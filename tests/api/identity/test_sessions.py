"""Signing in at the console: a link that works once, a cookie, and what pages of others cannot do with it."""

from __future__ import annotations

import re
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Answer, daemon
from fixtures.people import Peopled

CALL = ("POST", "/plugins/parrot/call/say", {"text": "x"})
OURS = {"sec_fetch_site": "same-origin"}


def link_of(peopled: Peopled, *options: str) -> str:
    """The path of a new login link, as it is asked for."""
    url = peopled.daemon.paddock.quickly("login", *options, "--json").json["url"]
    host, port = peopled.daemon.tcp
    assert url.startswith(f"http://{host}:{port}/login/pdl_")
    return "/" + url.removeprefix(f"http://{host}:{port}")


def cookie_in(answer: Answer) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def signed_in(peopled: Peopled, *options: str) -> str:
    """The cookie of somebody who just signed in."""
    answer = peopled.daemon.ask_tcp("POST", link_of(peopled, *options))
    assert answer.status == 303, answer.body
    return cookie_in(answer)


@pytest.mark.req("B-23", "cookies")
def test_a_link_signs_somebody_in_once_and_looking_at_it_does_not_use_it_up(peopled: Peopled) -> None:
    ask, link = peopled.daemon.ask_tcp, link_of(peopled, "--user", "ann")

    for _ in range(3):
        shown = ask("GET", link)
        assert (shown.status, "set-cookie" in shown.headers) == (200, False)
        assert "signed in as user:ann" in shown.body and '<form method="post">' in shown.body
        assert "script" not in shown.headers["content-security-policy"] + shown.body
    assert ask("HEAD", link).status == 200
    # As a browser sends a form without fields.
    arrived = ask("POST", link, b"", content_type="application/x-www-form-urlencoded")
    said = arrived.headers["set-cookie"]
    assert re.fullmatch(
        r"__Host-paddock=pds_[a-z2-7]{52}; HttpOnly; Max-Age=604800; Path=/; SameSite=lax; Secure", said
    )
    me = ask("GET", "/me", cookie=cookie_in(arrived)).body
    assert (me["principal"], me["tenant"], me["via"], me["interactive"]) == ("user:ann", "default", "session", True)
    for method in ("GET", "POST"):
        again = ask(method, link)
        assert (again.status, "set-cookie" in again.headers) == (403, False)
    record = peopled.daemon.paddock("ledger", "tail", "--json").out
    for event in ("login_link.made", "session.opened", "login_link.refused"):
        assert f'"{event}"' in record
    assert "pds_" not in record and "pdl_" not in record


def test_whoever_has_neither_link_nor_session_waits_for_no_disk(peopled: Peopled) -> None:
    """They are anybody: what they send must not take the one turn to write from calls."""
    ask, store = peopled.daemon.ask_tcp, peopled.daemon.paddock.home / "data" / "paddock.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        assert ask("POST", f"//login/pdl_{'a' * 52}").status == 403
        assert ask("POST", "//logout", cookie=f"__Host-paddock=pds_{'a' * 52}", **OURS).status == 200
        busy.execute("ROLLBACK")


def test_the_operator_signs_in_as_the_operator_of_the_default_tenant_and_no_other(peopled: Peopled) -> None:
    ask, cookie = peopled.daemon.ask_tcp, signed_in(peopled)
    me = ask("GET", "/me", cookie=cookie).body

    assert me["principal"].startswith("local:") and me["roles"] == ["operator"]
    assert ask("GET", "/status", cookie=cookie).status == 200
    assert ask("GET", "/calls?tenant=acme", cookie=cookie).status == 404
    assert ask(*CALL, cookie=cookie, paddock_as="user:ann", **OURS).status == 403
    assert ask("POST", "/reconcile", cookie=cookie, **OURS).status == 403


def test_links_that_nobody_made_are_refused_and_leave_no_trace(peopled: Peopled) -> None:
    before = peopled.daemon.paddock("ledger", "tail", "--json").out
    for token in ("pdl_" + "a" * 52, "x", "pds_" + "a" * 52, "%00"):
        assert peopled.daemon.ask_tcp("POST", f"//login/{token}").status in (403, 404)
    assert peopled.daemon.paddock("ledger", "tail", "--json").out == before


def test_a_dead_link_that_is_brought_again_and_again_is_recorded_once(peopled: Peopled) -> None:
    ask, store = peopled.daemon.ask_tcp, peopled.daemon.paddock.home / "data" / "paddock.db"

    def entries() -> list[dict[str, Any]]:
        return peopled.daemon.paddock.quickly("ledger", "tail", "--json").json["entries"]

    link = link_of(peopled, "--user", "ann")
    assert ask("POST", link).status == 303
    before = entries()
    first = ask("POST", link)
    after = entries()
    with closing(sqlite3.connect(store, isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")  # they take no turn to write either
        again = [ask("POST", link) for _ in range(3)]
        busy.execute("ROLLBACK")

    assert [one["type"] for one in after if one not in before] == ["login_link.refused"]
    assert entries() == after
    assert [(one.status, one.body) for one in again] == [(403, first.body)] * 3


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "same-origin", "origin": "http://HOST"}, 200),
        ({"origin": "http://HOST"}, 200),
        ({}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "http://HOST"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        # A page can have a form or a fetch send this too.
        ({"sec_fetch_site": "same-origin", "content_type": "application/json"}, 200),
        ({"sec_fetch_site": "cross-site", "content_type": "application/json"}, 403),
        ({"sec_fetch_site": "cross-site", "content_type": "text/plain"}, 403),
        ({"content_type": "application/json"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_only_a_page_of_ours_changes_something_with_a_session(
    peopled: Peopled, headers: dict[str, str], status: int
) -> None:
    cookie = signed_in(peopled, "--user", "ann")
    host = "{}:{}".format(*peopled.daemon.tcp)
    sent = {name: value.replace("HOST", host) for name, value in headers.items()}

    assert peopled.daemon.ask_tcp(*CALL, cookie=cookie, **sent).status == status


@pytest.mark.req("B-23", "cross-site requests whatever their body")
@pytest.mark.parametrize("marks", [{"sec_fetch_site": "cross-site"}, {"origin": "http://evil.example"}, {}])
@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/json", b'{"text": "x"}'),
        ("text/plain", b'{"text": "x"}'),
        ("application/x-www-form-urlencoded", b"text=x"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\ncontent-disposition: form-data; name="text"\r\n\r\nx\r\n--b--\r\n',
        ),
        ("application/octet-stream", b"x"),
        ("", b""),
    ],
)
def test_a_session_changes_nothing_for_a_page_of_others_whatever_the_body(
    peopled: Peopled, marks: dict[str, str], media: str, body: bytes
) -> None:
    cookie = signed_in(peopled, "--user", "olga")
    headers = {"cookie": cookie, **({"content_type": media} if media else {}), **marks}

    for path in ("/plugins/parrot/call/say", "/plugins/parrot/disable", "//logout", "//plugins/parrot/disable"):
        assert peopled.daemon.ask_tcp("POST", path, body, **headers).status == 403, path
    assert peopled.ask("olga", "GET", "/plugins/parrot").body["state"] == "enabled"
    assert peopled.daemon.ask_tcp("GET", "/me", cookie=cookie).status == 200, "still signed in"


@pytest.mark.req("B-23", "CSP")
def test_pages_run_their_own_scripts_alone_and_stand_in_no_frame(peopled: Peopled) -> None:
    cookie = signed_in(peopled, "--user", "olga")
    for path in ("//", "//plugins", "//plugins/parrot", "//inbox", "//ledger", "//settings", "//no-such-page"):
        page = peopled.daemon.ask_tcp("GET", path, cookie=cookie, accept="text/html")
        policy = dict(one.strip().split(" ", 1) for one in page.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'", path
        assert policy.get("script-src", "'self'") == policy["style-src"] == policy["form-action"] == "'self'", path
        assert page.headers["x-frame-options"].lower() == "deny"
        assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", page.body), path


@pytest.mark.req("B-23", "cross-site requests whatever their body")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec_fetch_site": "none", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, 200),
        ({"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors", "sec_fetch_dest": "empty"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"}, 401),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "cors", "sec_fetch_dest": "empty"}, 401),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}, 401),
    ],
)
def test_a_page_of_others_reads_nothing_with_a_session(peopled: Peopled, headers: dict[str, str], status: int) -> None:
    cookie = signed_in(peopled, "--user", "ann")

    assert peopled.daemon.ask_tcp("GET", "/me", cookie=cookie, **headers).status == status


@pytest.mark.req("B-23", "cross-site requests whatever their body")
@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 404), ("none", 404)]
)
def test_a_link_of_somebody_elses_page_has_no_plugin_work(peopled: Peopled, site: str, status: int) -> None:
    headers = {"sec_fetch_site": site, "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    cookie = signed_in(peopled, "--user", "ann")

    answer = peopled.daemon.ask_tcp("GET", "/plugins/parrot/resources/read?uri=a%3Ab", cookie=cookie, **headers)

    assert (answer.status, answer.body["code"] == "http.cross_site") == (status, status == 403)


@pytest.mark.req("B-23", "cookies")
def test_signing_out_ends_the_session_and_not_only_the_cookie(peopled: Peopled) -> None:
    ask, cookie = peopled.daemon.ask_tcp, signed_in(peopled, "--user", "ann")
    assert ask("GET", "/me", cookie=cookie).status == 200
    refused = ask("POST", "//logout", cookie=cookie, sec_fetch_site="cross-site")
    assert (refused.status, ask("GET", "/me", cookie=cookie).status) == (403, 200)

    out = ask("POST", "//logout", cookie=cookie, **OURS)
    assert out.status == 200 and "Max-Age=0" in out.headers["set-cookie"]
    assert ask("GET", "/me", cookie=cookie).status == 401


def test_sessions_are_listed_and_ended_by_whose_they_are_and_by_the_operator(peopled: Peopled) -> None:
    ask, paddock = peopled.daemon.ask_tcp, peopled.daemon.paddock
    first, second = signed_in(peopled, "--user", "bob"), signed_in(peopled, "--user", "bob")
    ids = [one["id"] for one in ask("GET", "/me/sessions", cookie=first).body["sessions"]]
    assert len(ids) == 2

    other = signed_in(peopled, "--user", "ann")
    unknown = ask("POST", "/me/sessions/ses_0000000000000000/end", cookie=other, **OURS)
    theirs = ask("POST", f"/me/sessions/{ids[0]}/end", cookie=other, **OURS)
    assert (theirs.status, unknown.status) == (404, 404)
    assert peopled.ask("bob", "POST", f"/me/sessions/{ids[0]}/end").status == 404, "his key has none"

    assert ask("POST", f"/me/sessions/{ids[0]}/end", cookie=second, **OURS).status == 200
    assert (ask("GET", "/me", cookie=first).status, ask("GET", "/me", cookie=second).status) == (401, 200)
    assert ids[1] in paddock.quickly("user", "session", "list", "bob").out
    paddock.quickly("user", "session", "remove", "bob")
    assert ask("GET", "/me", cookie=second).status == 401
    assert paddock.quickly("user", "session", "list", "bob", "--json").json["sessions"] == []


def test_whoever_is_disabled_or_removed_is_signed_out_at_once(peopled: Peopled) -> None:
    ask, paddock = peopled.daemon.ask_tcp, peopled.daemon.paddock
    for name, away in (("eve", ("user", "disable", "eve")), ("fay", ("user", "remove", "fay", "--yes"))):
        paddock.quickly("user", "add", name)
        cookie = signed_in(peopled, "--user", name)
        assert ask("GET", "/me", cookie=cookie).status == 200
        paddock.quickly(*away)
        assert ask("GET", "/me", cookie=cookie).status == 401
    assert "is disabled" in paddock.quickly("login", "--user", "eve", code=5).err


def test_a_link_made_before_somebody_is_removed_or_signed_out_signs_nobody_in(peopled: Peopled) -> None:
    ask, paddock = peopled.daemon.ask_tcp, peopled.daemon.paddock
    paddock.quickly("user", "add", "gil")
    link = link_of(peopled, "--user", "gil")
    paddock.quickly("user", "session", "remove", "gil")
    assert ask("POST", link).status == 403
    link = link_of(peopled, "--user", "gil")
    paddock.quickly("user", "remove", "gil", "--yes")
    paddock.quickly("user", "add", "gil")  # somebody else of that name
    assert ask("POST", link).status == 403
    assert ask("POST", link_of(peopled, "--user", "gil")).status == 303


def test_nobody_of_another_tenant_and_nothing_but_people_is_signed_in(peopled: Peopled) -> None:
    paddock = peopled.daemon.paddock
    paddock.quickly("user", "add", "ann", "--tenant", "acme")  # and Ann of the default tenant is somebody else
    key = peopled.keys["ann"].split("_")[1]

    for who in ("acme/user:ann", "acme/user:zoe", "agent:ann", "plugin:parrot", f"key:{key}"):
        assert "who can sign in" in paddock.quickly("login", "--user", who, code=6).err, who


def test_what_was_decided_is_explained_to_whoever_made_a_call_or_whose_key_did(peopled: Peopled) -> None:
    ask, cookie = peopled.daemon.ask_tcp, signed_in(peopled, "--user", "ann")
    by_key = peopled.ask("ann", *CALL).body["call_id"]
    by_ann = ask(*CALL, cookie=cookie, **OURS).body["call_id"]

    def explained(call: str, **credential: str) -> int:
        return ask("GET", f"/calls/{call}/explanation", **credential).status

    key, bob = ({"authorization": f"Bearer {peopled.keys[name]}"} for name in ("ann", "bob"))
    assert [explained(by_key, cookie=cookie), explained(by_ann, cookie=cookie)] == [200, 200]
    assert [explained(by_key, **key), explained(by_ann, **key)] == [200, 404]  # a key may have less than its owner
    assert [explained(by_key, **bob), explained(by_ann, **bob)] == [404, 404]


def test_a_person_who_is_signed_in_can_answer_what_a_key_cannot(peopled: Peopled) -> None:
    cookie = signed_in(peopled, "--user", "zoe", "--tenant", "acme")

    assert peopled.daemon.ask_tcp("GET", "/me", cookie=cookie).body["interactive"] is True
    assert peopled.ask("zoe", "GET", "/me").body["interactive"] is False


def test_the_first_start_prints_a_link_and_the_second_does_not(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home", more={"PADDOCK_HTTP_FIRST_LINK": "true"})
    with daemon(paddock) as started:
        token = started.told(event="login")["url"].rpartition("/")[2]
        assert started.ask_tcp("POST", f"//login/{token}").status == 303
    with daemon(paddock) as again:
        assert again.ask_tcp("GET", "/healthz").status == 200
        assert not [one for one in again.events if one["event"] == "login"]


def test_the_log_tells_no_link_and_nothing_of_what_anybody_may_send(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    with daemon(paddock, "--log-level", "debug") as started:
        link = paddock.quickly("login", "--json").json["url"].rpartition("/login/")[2]
        for method in ("GET", "POST", "DELETE"):
            assert started.ask_tcp(method, f"//login/{link}").status in (200, 303, 405)
        for sent in (
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            b"nonsense\r\n\r\n",
        ):
            with socket.create_connection(started.tcp, PATIENCE) as speaking:
                speaking.sendall(sent)
                assert speaking.recv(4096).startswith(b"HTTP/1.1 ")
    said = "".join(started.log)

    assert "POST /login/" in said and link not in said
    assert "uvicorn" not in said


def test_without_a_daemon_there_is_no_link(tmp_path: Path) -> None:
    said = Paddock(tmp_path / "home")("login", "--json", code=1)

    assert said.error["code"] == "daemon.no_url"
