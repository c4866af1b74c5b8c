"""`paddock call --as`: the operator calls as somebody else, and has no more than they have."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.packages import write_file, write_json
from paddock.store.database import open_direct

CODE = """
class Plugin:
    def requires_permission(self):
        return "notes.read"

    def execute(self, params, context, host):
        return {"status": "success", "data": {"user": context["user_id"], "may": context["permissions"]}}
"""


def ours(folder: Path) -> Path:
    """A plugin that says as whom it was called, kept to callers with a scope."""
    about = {"name": "ours", "version": "1.0.0", "entrypoints": {"ours": "ours.plugin:Plugin"}}
    write_json(folder / "manifest.yaml", about)
    write_file(folder / "ours" / "__init__.py", "")
    write_file(folder / "ours" / "plugin.py", CODE)
    return folder


def prepare(paddock: Paddock, folder: Path) -> str:
    """Ann has the scope, Bob has not; gives the id of a key of Ann's."""
    paddock.quickly("plugin", "install", ours(folder / "ours"), "--yes")
    paddock.quickly("plugin", "enable", "ours", "--no-start")
    paddock.quickly("user", "add", "ann", "--scope", "notes.read")
    paddock.quickly("user", "add", "bob")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "zoe", "--tenant", "acme")
    return paddock.quickly("apikey", "add", "ann", "--scope", "notes.read", "--json").json["id"]


def data(said: Any) -> dict[str, Any]:
    return said["data"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Daemon, str], None, None]:
    folder = tmp_path_factory.mktemp("served")
    paddock = Paddock(folder / "home")
    key = prepare(paddock, folder)
    with daemon(paddock) as started:
        yield started, key


@pytest.mark.slow
def test_a_call_without_a_daemon_is_made_with_what_the_other_may_do(paddock: Paddock, source: Path) -> None:
    prepare(paddock, source)
    assert data(paddock("call", "ours", "--as", "user:ann").json) == {"user": "user:ann", "may": ["notes.read"]}
    refused = paddock("call", "ours", "--as", "user:bob", "--json", code=5)
    assert refused.error["code"] == "permission_denied"
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        rows = database.read(lambda tx: tx.all("SELECT personal FROM ledger WHERE principal = ?", ("user:ann",)))
    operator = pwd.getpwuid(os.geteuid()).pw_name
    assert [json.loads(row["personal"])["operator_id"] for row in rows] == [operator], "the record names both"


def test_a_daemon_makes_it_so_too_and_the_scopes_are_looked_up_at_each_call(served: tuple[Daemon, str]) -> None:
    started, key = served
    paddock = started.paddock
    assert data(paddock("call", "ours", "--as", "user:ann").json) == {"user": "user:ann", "may": ["notes.read"]}
    assert data(paddock("call", "ours", "--as", f"key:{key}").json)["user"] == f"key:{key}"
    paddock("call", "ours", "--as", "user:bob", code=5)
    paddock.quickly("user", "scope", "add", "bob", "notes.read")
    assert data(paddock("call", "ours", "--as", "user:bob").json)["user"] == "user:bob"
    detached = paddock("call", "ours", "--as", "user:bob", "--detach").out.strip()
    eventually(lambda: paddock("call", "show", detached, "--json").json["status"] == "succeeded", "it does not end")
    assert data(paddock("call", "show", detached, "--json").json["result"])["user"] == "user:bob"
    paddock.quickly("user", "scope", "remove", "bob", "notes.read")
    paddock("call", "ours", "--as", "user:bob", code=5)


def test_nobody_who_was_stopped_and_nobody_unknown_is_called_as(served: tuple[Daemon, str]) -> None:
    paddock = served[0].paddock
    paddock.quickly("user", "add", "eve", "--scope", "notes.read")
    paddock.quickly("user", "disable", "eve")
    assert "user:eve is disabled" in paddock.quickly("call", "ours", "--as", "user:eve", code=5).err
    assert "paddock user add" in paddock.quickly("call", "ours", "--as", "user:nobody", code=3).err
    assert "write user:ann" in paddock.quickly("call", "ours", "--as", "ann", code=6).err
    assert "write for instance user:ann" in paddock.quickly("call", "ours", "--as", "user:a\r\nb: c", code=6).err
    assert "enable ours --tenant acme" in paddock.quickly("call", "ours", "--as", "acme/user:zoe", code=3).err


@pytest.mark.req("S-06", "permissions from the credential")
def test_over_http_a_header_names_them_and_a_body_cannot(served: tuple[Daemon, str]) -> None:
    started, _ = served
    called = started.ask("POST", "/plugins/ours/execute", {"params": {}}, Paddock_As="user:ann")
    assert (called.status, data(called.body)["user"]) == (200, "user:ann")
    for body in ({"params": {}, "principal": "user:ann"}, {"params": {}, "as": "user:ann"}):
        assert started.ask("POST", "/plugins/ours/execute", body).status == 400
    denied = started.ask("POST", "/plugins/ours/execute", {"params": {}}, Paddock_As="user:bob")
    assert (denied.status, denied.body["code"]) == (403, "permission_denied")
    for wrong, status in (("ann", 400), ("", 400), ("user:nobody", 404), ("user:änn".encode().decode("latin-1"), 400)):
        assert started.ask("POST", "/plugins/ours/execute", {"params": {}}, Paddock_As=wrong).status == status
    assert started.ask("GET", "/plugins/ours/resources/read?uri=x:y", Paddock_As="user:nobody").status == 404


def test_what_cannot_be_done_as_somebody_else_is_not_done_as_the_operator_instead(served: tuple[Daemon, str]) -> None:
    for method, path in (("POST", "/plugins/ours/disable"), ("GET", "/calls"), ("POST", "/reconcile")):
        refused = served[0].ask(method, path, Paddock_As="user:ann")
        assert (refused.status, refused.body["code"]) == (400, "principal.not_here")
    assert served[0].ask("GET", "/plugins/ours").body["enabled"] is True
