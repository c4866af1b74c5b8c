"""Servers of the Python index, in cages, called for real."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.registry.conftest import Shop

OLDER = ("--with", "mcp<2")  # written for an older library of the protocol
pytestmark = pytest.mark.registry


@pytest.fixture
def website() -> Iterator[tuple[int, list[str]]]:
    """The port of a web server on this machine, and what was asked of it."""
    asked: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            if self.path == "/":
                self.wfile.write(b"<html><body><article><p>A bale of peat</p></article></body></html>")

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, asked
        server.shutdown()


def test_git_reads_and_writes_the_repository_that_was_granted(shop: Shop, granted: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(granted), *words], check=True, capture_output=True, timeout=30)

    git("init", "-q")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.com")
    (granted / "letter.txt").write_text("Dear Bob")
    git("add", "letter.txt")
    git("commit", "-q", "-m", "First words")
    server = shop.pypi("git", "--capability", f"write:fs:{granted}", "--capability", f"exec:git:{granted}")

    assert "First words" in server.said("git_log", repo_path=str(granted))
    (granted / "letter.txt").write_text("Dear Carol")
    server.call("git_add", repo_path=str(granted), files=["letter.txt"])
    server.call("git_commit", repo_path=str(granted), message="Somebody else")
    told = subprocess.run(["git", "-C", str(granted), "log", "--format=%s"], capture_output=True, text=True, timeout=30)
    assert told.stdout.split("\n")[:2] == ["Somebody else", "First words"]


def test_time_knows_the_zones(shop: Shop) -> None:
    server = shop.pypi("time")
    noon = server.given("convert_time", source_timezone="Asia/Tokyo", time="12:00", target_timezone="Asia/Kolkata")
    assert "T08:30:00" in noon["target"]["datetime"]


@pytest.mark.req("B-02", "unknown servers run caged")
def test_fetch_without_a_grant_reaches_nothing_and_whoever_calls_is_told_why(
    shop: Shop, website: tuple[int, list[str]]
) -> None:
    port, asked = website
    # The server itself would fetch from this machine: its cage does not let it.
    server = shop.pypi("fetch", "--arg", "--allow-private-ips")
    error = server.call("fetch", url=f"http://127.0.0.1:{port}/", code=7).error
    assert error["code"] == "tool.failed"
    assert f"net:127.0.0.1:{port}, or net:*" in error["hint"]
    assert asked == []


def test_fetch_reaches_the_one_address_that_was_granted(shop: Shop, website: tuple[int, list[str]]) -> None:
    port, asked = website
    server = shop.pypi("fetch", "--arg", "--allow-private-ips", "--capability", f"net:127.0.0.1:{port}")

    assert "A bale of peat" in server.said("fetch", url=f"http://127.0.0.1:{port}/")
    assert "/" in asked
    # The same machine, and a port that nobody granted.
    assert server.call("fetch", url=f"http://127.0.0.1:{port - 1}/", code=7).error["code"] == "tool.failed"


def test_calculator_calculates(shop: Shop) -> None:
    assert shop.pypi("calculator").said("calculate", expression="2 * 21") == "42"


def test_sqlite_keeps_its_tables_in_the_folder_that_was_granted(shop: Shop, granted: Path) -> None:
    file = granted / "notes.db"
    server = shop.pypi("sqlite", *OLDER, "--arg", "--db-path", "--arg", file, "--capability", f"write:fs:{granted}")
    server.call("create_table", query="CREATE TABLE notes (text)")
    server.call("write_query", query="INSERT INTO notes VALUES ('peat')")
    assert "peat" in server.said("read_query", query="SELECT text FROM notes")
    assert file.is_file()


def test_duckdb_keeps_its_tables_in_the_folder_that_was_granted(shop: Shop, granted: Path) -> None:
    file = granted / "notes.duckdb"
    server = shop.pypi("duckdb", *OLDER, "--arg", "--db-path", "--arg", file, "--capability", f"write:fs:{granted}")
    server.call("query", query="CREATE TABLE notes AS SELECT 'peat' AS text")
    assert "peat" in server.said("query", query="SELECT text FROM notes")
    assert file.is_file()
