"""The API over TCP: who is let in, by which name, from which page, and how much of our time they get."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon
from fixtures.people import Peopled, peopled_daemon

CALL = ("POST", "/plugins/parrot/call/say", {"text": "x"})


def said_to(where: tuple[str, int], raw: bytes) -> tuple[int, dict[str, str], bytes]:
    """What is answered to these bytes, read until the other side closes."""
    with socket.create_connection(where, PATIENCE) as connection:
        connection.sendall(raw)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *headers = head.decode().split("\r\n")
    return int(line.split()[1]), dict(one.lower().split(": ", 1) for one in headers), body


def test_over_tcp_nobody_is_let_in_without_a_credential_but_to_ask_whether_it_lives(peopled: Peopled) -> None:
    ask = peopled.daemon.ask_tcp

    assert ask("GET", "/healthz").body == {"status": "alive"}
    assert ask("GET", "/readyz").status == 200
    for path in ("/plugins", "/calls", "/approvals", "/openapi.json", "/nothing", "//mcp", "//"):
        refused = ask("GET", path)
        told = refused.body["error"]["data"] if path == "//mcp" else refused.body  # as MCP clients read it
        assert (refused.status, told["code"]) == (401, "auth.needed"), path
        assert refused.headers["www-authenticate"] == 'Bearer realm="paddock"'
    assert peopled.ask("ann", *CALL).status == 200
    assert peopled.ask("ann", "GET", "/nothing").status == 404


def test_a_target_in_absolute_form_names_the_host_and_the_host_header_does_not(peopled: Peopled) -> None:
    where, key = peopled.daemon.tcp, peopled.keys["ann"]
    ours = f"127.0.0.1:{where[1]}"

    def answered(target: str, *hosts: str) -> int:
        lines = [f"GET {target} HTTP/1.1", *(f"Host: {host}" for host in hosts), f"Authorization: Bearer {key}"]
        return said_to(where, "\r\n".join([*lines, "Connection: close", "", ""]).encode())[0]

    for target in (f"http://{ours}/healthz", f"HTTP://{ours}/healthz", "https://localhost/api/v1/calls?limit=1"):
        assert answered(target, ours) == answered(target, "evil.example") == 200, target
    assert answered(f"http://{ours}", ours) == answered("/", ours), "an empty path is the root"
    for target in (
        "http://evil.example/healthz",
        f"http://evil.example:{where[1]}/api/v1/calls",
        f"http://{ours}@evil.example/healthz",
        f"http://evil.example@{ours}/healthz",
        f"ftp://{ours}/healthz",
        "http:///healthz",
    ):
        assert answered(target, ours) == 421, target
    assert answered(f"http://{ours}/healthz") == answered(f"http://{ours}/healthz", ours, ours) == 421, "not one Host"


@pytest.mark.req("B-23", "Host")
@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7433", "127.0.0.1.evil.example", "localhost.", "", "a b"),
        *("evil.localhost", "evil-localhost:7433", "local", "7.0.0.1", "localhost.evil.example"),
    ],
)
def test_a_name_of_somebody_else_that_leads_here_is_refused(peopled: Peopled, host: str) -> None:
    refused = peopled.ask("ann", *CALL, host=host)

    assert (refused.status, refused.body["code"]) == (421, "http.wrong_host")
    assert peopled.daemon.ask_tcp("GET", "/healthz", host=host).status == 421


@pytest.mark.req("B-23", "Host")
def test_the_names_of_this_machine_lead_here_whatever_the_port(peopled: Peopled) -> None:
    port = peopled.daemon.tcp[1]
    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST:1", "[::1]:80"):
        assert peopled.ask("ann", *CALL, host=host).status == 200, host
    status, _, _ = said_to(peopled.daemon.tcp, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert status in (400, 421), "one name is needed"
    two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert said_to(peopled.daemon.tcp, two)[0] in (400, 421)


@pytest.mark.req("B-23", "Origin")
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"])
def test_pages_of_others_may_not_ask_not_even_with_a_key(peopled: Peopled, origin: str) -> None:
    refused = peopled.ask("ann", *CALL, origin=origin)

    assert (refused.status, refused.body["code"]) == (403, "http.wrong_origin")
    assert "access-control-allow-origin" not in refused.headers


@pytest.mark.req("B-23", "CSP")
def test_every_answer_tells_browsers_to_do_nothing_with_it(peopled: Peopled) -> None:
    answers = [
        peopled.daemon.ask_tcp("GET", "/healthz").headers,
        peopled.daemon.ask_tcp("GET", "/plugins").headers,
        peopled.ask("ann", *CALL).headers,
        peopled.ask("ann", "GET", "/nothing").headers,
        said_to(peopled.daemon.tcp, b"nonsense\r\n\r\n")[1],
    ]
    for headers in answers:
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"].lower() == "deny"
    for headers in answers[:-1]:
        assert headers["referrer-policy"] == "same-origin"
        assert headers["content-security-policy"].startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"


def test_a_request_that_is_none_or_too_large_is_told_so_in_a_problem(peopled: Peopled) -> None:
    where = peopled.daemon.tcp
    begun = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    wrong = {
        b"nonsense\r\n\r\n": (400, "http.malformed"),
        begun + b"X: " + b"a" * 40_000 + b"\r\n\r\n": (431, "http.headers_too_large"),
        begun + b"X: " + b"a" * 400_000: (431, "http.headers_too_large"),
        begun + b"X: y\r\n" * 300 + b"\r\n": (431, "http.headers_too_large"),
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n": (431, "http.headers_too_large"),
    }
    for raw, expected in wrong.items():
        status, headers, body = said_to(where, raw)
        assert (status, json.loads(body)["code"]) == expected, raw[:40]
        assert headers["content-type"] == "application/problem+json"
        assert json.loads(body)["error_id"].startswith("err_")
    large = peopled.ask("ann", "POST", "/plugins/parrot/call/say", b" " * 2_000_000)
    assert (large.status, large.body["code"]) == (413, "http.body_too_large")


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
"""A request that somebody hides in the body of another."""


@pytest.mark.req("B-23", "framing of requests")
@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"Content-Length: +%d\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 0x10\r\n\r\n",
        b"Content-Length: 0,%d\r\n\r\n",
        b"Content-Length: 0\r\nX: y\rContent-Length: %d\r\n\r\n",
    ],
    ids=repr,
)
def test_a_request_whose_length_can_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_answered(
    peopled: Peopled, framing: bytes
) -> None:
    head = b"POST /api/v1/calls HTTP/1.1\r\nHost: localhost\r\n"
    sent = head + (framing % len(HEALTH) if b"%d" in framing else framing) + HEALTH
    with socket.create_connection(peopled.daemon.tcp, PATIENCE) as connection:
        connection.sendall(sent)
        said = b""
        while chunk := connection.recv(65_536):
            said += chunk

    assert said.startswith(b"HTTP/1.1 400 "), said
    assert said.count(b"HTTP/1.1 ") == 1 and b"alive" not in said, said


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Generator[Peopled, None, None]:
    """One that has little patience and little room."""
    with peopled_daemon(
        tmp_path_factory.mktemp("hurried"),
        PADDOCK_HTTP_HEADER_TIMEOUT_S="0.5",
        PADDOCK_HTTP_BODY_TIMEOUT_S="0.5",
        PADDOCK_HTTP_IDLE_TIMEOUT_S="0.5",
        PADDOCK_HTTP_MAX_CONNECTIONS="8",
        PADDOCK_HTTP_ORIGINS="http://app.example:3000",
        PADDOCK_HTTP_HOSTS="paddock.example",
    ) as started:
        yield started


@pytest.mark.parametrize(
    ("begun", "code"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: local", "http.too_slow"),
        (b"POST /api/v1/calls HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", "auth.needed"),
        (b"", ""),
        (b"\r\n", "http.too_slow"),
    ],
)
def test_a_request_that_does_not_arrive_is_ended(hurried: Peopled, begun: bytes, code: str) -> None:
    with socket.create_connection(hurried.daemon.tcp, PATIENCE) as connection:
        connection.sendall(begun)
        said = b""
        while chunk := connection.recv(65_536):
            said += chunk

    assert code.encode() in said


def test_a_body_that_does_not_arrive_is_ended_and_a_slow_client_holds_nobody(hurried: Peopled) -> None:
    key = hurried.keys["ann"].encode()
    begun = b"POST /api/v1/plugins/parrot/call/say HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key
    with socket.create_connection(hurried.daemon.tcp, PATIENCE) as slow:
        slow.sendall(begun + b"\r\nContent-Length: 1000\r\n\r\n{")
        assert hurried.ask("ann", *CALL).status == 200
        said = b""
        while chunk := slow.recv(65_536):
            said += chunk
    assert said.startswith(b"HTTP/1.1 408") and b"http.too_slow" in said


@pytest.mark.parametrize("body", [b"{}", b""])
def test_a_client_that_says_nothing_more_is_let_go_also_where_it_was_answered_before_its_body(
    hurried: Peopled, body: bytes
) -> None:
    with socket.create_connection(hurried.daemon.tcp, PATIENCE) as idle:
        head = b"POST /api/v1/calls HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        idle.sendall(head)
        said = idle.recv(65_536)
        idle.sendall(body)
        while chunk := idle.recv(65_536):
            said += chunk

    assert said.startswith(b"HTTP/1.1 401")


def test_whoever_holds_connections_open_does_not_keep_others_out(hurried: Peopled) -> None:
    held = [socket.create_connection(hurried.daemon.tcp, PATIENCE) for _ in range(30)]
    try:
        for one in held:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        assert hurried.ask("ann", *CALL).status == 200
    finally:
        for one in held:
            one.close()


@pytest.mark.req("B-23", "Origin")
def test_a_page_of_an_origin_that_was_named_may_ask_with_a_key(hurried: Peopled) -> None:
    origin = "http://app.example:3000"
    preflight = hurried.daemon.ask_tcp(
        "OPTIONS", "/calls", origin=origin, access_control_request_method="POST", host="paddock.example:80"
    )
    answered = hurried.ask("ann", *CALL, origin=origin)

    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == origin
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in preflight.headers
    assert (answered.status, answered.headers["access-control-allow-origin"]) == (200, origin)


def test_a_port_that_is_taken_is_an_error_that_says_what_to_type(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = Paddock(tmp_path / "home", more={"PADDOCK_HTTP_ADDRESS": address})("serve", code=1)

    assert f"another program listens on {address}" in said.err
    assert "set http.address to another port, or to off for the Unix socket alone" in said.err
    assert not (tmp_path / "home" / "run" / "paddock.sock").exists()


def test_it_says_where_it_listens_and_commands_find_it(peopled: Peopled, tmp_path: Path) -> None:
    host, port = peopled.daemon.tcp
    written = peopled.daemon.paddock.home / "run" / "paddock.url"

    assert (host, written.read_text()) == ("127.0.0.1", f"http://127.0.0.1:{port}\n")
    with daemon(Paddock(tmp_path / "home", more={"PADDOCK_HTTP_ADDRESS": "off"})) as alone:
        assert alone.told(event="ready")["url"] is None
        assert not (tmp_path / "home" / "run" / "paddock.url").exists()


def test_control_routes_answer_while_every_seat_is_taken(peopled: Peopled) -> None:
    waiting = [peopled.ask("olga", "POST", "/plugins/parrot/call/wait?detach=1", {}) for _ in range(40)]
    try:
        for path in ("/healthz", "/readyz", "/metrics", "/status", "/plugins", "/approvals", "/calls"):
            assert peopled.ask("olga", "GET", path).status == 200, path
    finally:
        for one in waiting:
            if one.status == 202:
                assert peopled.ask("olga", "POST", f"/calls/{one.body['call_id']}/cancel").status == 202
