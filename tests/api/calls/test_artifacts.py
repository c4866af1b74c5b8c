"""Artifacts over HTTP: the person at the machine downloads what their plugins made, whole or in part."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Answer, Daemon, LocalConnection, daemon, eventually
from fixtures.maker import CONTENT, maker
from fixtures.people import key_of
from paddock.api.artifacts import parse_range
from paddock.core.errors import CallerError


@pytest.fixture
def served(tmp_path: Path) -> Generator[Daemon, None, None]:
    paddock = Paddock(tmp_path / "home")
    paddock("plugin", "install", maker(tmp_path / "maker"), "--yes")
    paddock("plugin", "enable", "maker")
    with daemon(paddock) as started:
        yield started


def download(served: Daemon, digest: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = LocalConnection(served.socket)
    try:
        connection.request(method, f"/api/v1/artifacts/{digest}", headers=headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


@pytest.mark.req("O-09", "byte range")
def test_an_artifact_is_downloaded_whole_and_in_part(served: Daemon) -> None:
    made = served.ask("POST", "/plugins/maker/call/make", {}).body
    uri = made["result"]["uri"] if "result" in made else made["uri"]
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert uri == f"artifact://sha256/{digest}"
    status, headers, content = download(served, digest)
    assert (status, content, headers["content-type"]) == (200, CONTENT, "text/html")
    assert headers["content-disposition"].startswith("attachment")
    assert download(served, digest, "HEAD") == (200, headers, b"")
    status, headers, content = download(served, digest, Range="bytes=256-511")
    assert (status, content) == (206, bytes(range(256)))
    assert headers["content-range"] == f"bytes 256-511/{len(CONTENT)}"
    assert download(served, digest, Range="bytes=5000000-")[0] == 400
    unknown = served.ask("GET", f"/artifacts/{'0' * 64}")
    assert (unknown.status, unknown.body["code"]) == (404, "artifacts.unknown")
    assert served.ask("GET", "/artifacts/passwd").status == 404


def recipients(paddock: Paddock) -> set[str]:
    with closing(sqlite3.connect(paddock.home / "data" / "paddock.db")) as database:
        return {principal for (principal,) in database.execute("SELECT principal FROM artifact_recipients")}


MAKING_IS_FOR_MAKERS = """
@id("only-makers-make") @text("Only makers make these.")
forbid (principal, action in Action::"anyCall", resource == Callable::"maker.make")
unless { principal in Group::"makers" || principal in Role::"operator" };
"""


def test_an_artifact_is_for_who_may_call_what_made_it_or_was_given_it_and_unknown_to_all_others(
    tmp_path: Path,
) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "install", maker(tmp_path / "maker"), "--yes")
    paddock.quickly("plugin", "enable", "maker", "--no-start")
    for name in ("ann", "bob", "cleo"):
        paddock.quickly("user", "add", name)
    paddock.quickly("group", "add", "makers")
    paddock.quickly("group", "member", "add", "makers", "ann")
    keys = {name: key_of(paddock, name) for name in ("ann", "bob", "cleo")}
    rules = paddock.home / "policies"
    rules.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256(CONTENT).hexdigest()
    with daemon(paddock) as started:

        def fetched_by(name: str, address: str = digest) -> Answer:
            return started.ask_tcp("HEAD", f"/artifacts/{address}", authorization=f"Bearer {keys[name]}")

        assert started.ask("POST", "/plugins/maker/call/make", {}).status == 200
        assert fetched_by("bob").status == 200, "bob may call what made it"
        made = started.ask_tcp("POST", "/plugins/maker/call/make", {}, authorization=f"Bearer {keys['cleo']}")
        assert made.status == 200
        (rules / "own.cedar").write_text(MAKING_IS_FOR_MAKERS)
        (rules / "own.cedar").chmod(0o600)
        eventually(lambda: fetched_by("bob").status == 404, "the new rule is in force")

        assert fetched_by("ann").status == 200, "ann may call what made it"
        assert fetched_by("cleo").status == 200, "cleo was given it, when she still could call"
        guess = {"text": f"is it artifact://sha256/{digest}?"}
        said = started.ask_tcp("POST", "/plugins/maker/call/repeat", guess, authorization=f"Bearer {keys['bob']}")
        assert said.body["result"] == guess, "an answer with the address in it, which bob put there himself"
        forbidden, unknown = (
            started.ask_tcp("GET", f"/artifacts/{address}", authorization=f"Bearer {keys['bob']}")
            for address in (digest, "0" * 64)
        )
        for answer in (forbidden, unknown):
            answer.body.pop("error_id", None)
        assert (forbidden.status, forbidden.body) == (unknown.status, unknown.body)
        assert download(started, digest)[0] == 200, "the operator sees all"

        assert "user:cleo" in recipients(paddock)
        paddock.quickly("user", "remove", "cleo", "--yes")
        assert "user:cleo" not in recipients(paddock), "somebody else of that name would get it"


@pytest.mark.parametrize(
    ("wanted", "part"),
    [("bytes=0-9", (0, 10)), ("bytes=90-", (90, 10)), ("bytes=-10", (90, 10)), ("bytes=95-200", (95, 5)),
     ("bytes=-500", (0, 100))],
)  # fmt: skip
def test_a_range_is_a_part_of_what_is_there(wanted: str, part: tuple[int, int]) -> None:
    assert parse_range(wanted, 100) == part


@pytest.mark.parametrize("wanted", ["bytes=100-", "bytes=9-3", "bytes=-0", "bytes=-", "bytes=0-1,5-6", "lines=1-2", ""])
def test_what_is_no_part_is_refused(wanted: str) -> None:
    with pytest.raises(CallerError):
        parse_range(wanted, 100)
