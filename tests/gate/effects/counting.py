"""A plugin whose effects a service outside counts, those who want each to happen once, and what has to hold then."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fixtures.commands import PATIENCE, Paddock
from fixtures.counter_service import CounterService
from fixtures.daemons import Answer, ask
from fixtures.packages import native, write_file
from paddock.store.database import open_direct

WAYS = ("none", "probe", "native_key", "atomic")
"""How it can be found out what became of an effect: not at all, by asking the service, by asking it for the same under
the same key, or by what is noted in the plugin's tables, which are its outside then."""

SOON: dict[str, Any] = {"PADDOCK_EFFECTS_SETTLE_S": "0.2"}
"""For daemons that are to find out soon what became of effects: nothing is on its way here for long."""

PROGRAM = """
import os
from paddock_sdk import Host, Plugin

plugin = Plugin("counter", "1.0.0", capabilities_used=["storage:write"])

def sent(host, path, thing):
    host.http.fetch({{"method": "POST", "url": "{at}" + path, "body": thing}}).wait()
    return {{"counted": thing}}

@plugin.tool
def by_none(thing: str, host: Host):
    return sent(host, "/plain", thing)

@plugin.tool
def by_probe(thing: str, host: Host):
    return sent(host, "/plain", thing)

@plugin.tool
def by_late(thing: str, host: Host):
    return sent(host, "/late", thing)

@plugin.tool
def by_late_crash(thing: str, host: Host):
    sent(host, "/late", thing)
    os._exit(1)

@plugin.tool
def by_native_key(thing: str, host: Host):
    return sent(host, "/keyed", thing)

@plugin.tool
def by_atomic(params, context):
    plugin.storage.exec("CREATE TABLE IF NOT EXISTS counted (thing TEXT)")
    with plugin.storage.transaction() as tables:
        tables.exec("INSERT INTO counted VALUES (?)", [params["thing"]])
        tables.answers({{"counted": params["thing"]}})
    return {{"counted": params["thing"]}}

@plugin.tool
def look(idempotency_key: str, params: dict, host: Host):
    said = host.http.fetch("{at}/happened?" + params["thing"]).wait()["body"]
    return {{"happened": "true" in said, "result": {{"counted": params["thing"]}}}}

@plugin.tool
def kept(params, context):
    rows = plugin.storage.query("SELECT thing FROM counted").rows if "counted" in plugin.storage.schema() else []
    return {{"things": [row["thing"] for row in rows]}}

plugin.run()
"""
UNASKED = """
@id("outside-calls-are-confirmed") @text("Nobody is asked here.")
permit (principal, action in Action::"anyCall", resource) when { resource.effects.contains(Effect::"external_call") };
"""


def _tool(name: str, effect: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "effects": [effect], "input_schema": {"type": "object"}} | more


TOOLS = [
    _tool("by_none", "external_call"),
    _tool("by_probe", "external_call", recovery="probe", probe="look"),
    _tool("by_late", "external_call", recovery="probe", probe="look"),
    _tool("by_late_crash", "external_call", recovery="probe", probe="look"),
    _tool("by_native_key", "external_call", recovery="native_key"),
    _tool("by_atomic", "db_write", recovery="atomic"),
    _tool("look", "read_only"),
    _tool("kept", "read_only"),
]


def install_counter(paddock: Paddock, folder: Path, service: CounterService) -> None:
    """Install the plugin and enable it, and let it ask the service without asking a person."""
    package = native(
        folder / "counter",
        "counter",
        runtime={"command": ["python3", "./main.py"]},
        tools=TOOLS,
        capabilities=["storage:write", "host:http", f"net:127.0.0.1:{service.port}"],
    )
    write_file(package / "main.py", PROGRAM.format(at=f"http://127.0.0.1:{service.port}"))
    paddock.quickly("plugin", "install", package, "--yes", "--grant", f"net:127.0.0.1:{service.port}")
    paddock.quickly("plugin", "enable", "counter", "--no-start")
    ask_nobody(paddock.home)


def ask_nobody(home: Path) -> None:
    write_file(home / "policies" / "unasked.cedar", UNASKED).chmod(0o600)


def make(socket: Path, way: str, thing: str) -> Answer | None:
    """Ask for a thing to be counted once; None where nobody is there to answer."""
    body = {"name": f"counter.by_{way}", "params": {"thing": thing}}
    try:
        return ask(socket, "POST", "/calls", body, Idempotency_Key=thing)
    except (OSError, ValueError, AssertionError, http.client.HTTPException):
        return None


class Wishes:
    """What became of each thing, as those were told who want it counted and do not give up because a daemon dies."""

    def __init__(self, home: Path, service: CounterService) -> None:
        self._home = home
        self._service = service
        self.wanted: dict[str, str] = {}  # each with its way
        self.done: set[str] = set()
        self.doubted: set[str] = set()
        self.errors: list[Any] = []
        self.given_up = False

    @property
    def socket(self) -> Path:
        return self._home / "run" / "paddock.sock"

    def make_once(self, wanted: dict[str, str]) -> list[threading.Thread]:
        """Ask for these, each by somebody who hears nothing where the daemon ends; gives those who ask."""
        self.wanted |= wanted
        asking = [threading.Thread(target=self._make_once, args=(way, thing)) for thing, way in wanted.items()]
        for thread in asking:
            thread.start()
        return asking

    def _make_once(self, way: str, thing: str) -> None:
        if (answer := make(self.socket, way, thing)) is not None:
            self.told(way, thing, answer)

    def insist(self) -> None:
        """Ask for all that nobody has heard the end of, until it is known what became of each."""
        for thing in self.wanted.keys() - self.done - self.doubted:
            self.insist_on(thing)

    def insist_on(self, thing: str, patience: float = PATIENCE) -> None:
        """Ask for this until it is known what became of it."""
        way, deadline = self.wanted[thing], time.monotonic() + patience
        while time.monotonic() < deadline and not self.given_up:
            answer = make(self.socket, way, thing)
            if answer is not None and self.told(way, thing, answer):
                return
            time.sleep(0.02)  # nobody is there, or it is found out: whoever calls tries again
        self.errors.append(f"no answer about {thing}")

    def told(self, way: str, thing: str, answer: Answer) -> bool:
        """Note what was answered; whether that is the last word."""
        if answer.status == 200:
            if answer.body["result"] != {"counted": thing}:
                self.errors.append(answer.body)
            self.done.add(thing)
            return True
        if answer.body["code"] == "effect.in_doubt" and way == "none":
            self.doubted.add(thing)
            return True
        if answer.body["code"] != "effect.in_doubt" and answer.status not in (429, 502, 503, 504):
            self.errors.append(answer.body)
            return True
        return False

    def happened(self) -> Counter[str]:
        """What has happened, whoever knows of it; needs a daemon."""
        tables = ask(self.socket, "POST", "/calls", {"name": "counter.kept", "params": {}})
        return self._service.counted + Counter(tables.body["result"]["things"])

    def check(self, paddock: Paddock) -> None:
        """Nothing is lost, nothing happened twice, and what nobody knows waits for a person, who then finishes it."""
        happened = self.happened()
        listed = {one["key"]: one["call_id"] for one in doubts(paddock)}
        assert self.errors == [], self.errors
        assert [thing for thing, times in happened.items() if times > 1] == [], "nothing happens twice"
        assert self.done <= happened.keys(), "whoever was told that it happened was told the truth"
        assert self.doubted == listed.keys(), "what nobody knows is listed, and nothing else"
        assert self.done | self.doubted == self.wanted.keys(), "everybody was told"
        assert happened.keys() <= self.wanted.keys(), "nothing happened that nobody wants"
        assert {self.wanted[thing] for thing in self.doubted} <= {"none"}, "what can be found out was"
        for thing in self.doubted:
            word = (
                ["--happened", "--result", f'{{"counted": "{thing}"}}']
                if happened[thing]
                else ["--not-happened", "--yes"]
            )
            paddock.quickly("call", "unresolved", "resolve", listed[thing], *word)
            self.insist_on(thing)
        assert self.errors == [], self.errors
        assert self.happened() == Counter(self.wanted.keys()), "each of them happened once"
        assert doubts(paddock) == []
        assert paddock.quickly("ledger", "verify", "--json").json["verdict"] == "sound"


def doubts(paddock: Paddock) -> list[dict[str, Any]]:
    return paddock.quickly("call", "unresolved", "list", "--json").json["doubts"]


def things(name: str, ways: Sequence[str]) -> dict[str, str]:
    """One to be counted in each of these ways."""
    return {f"{name.replace(' ', '-')}-{way}": way for way in ways}


def on_record(home: Path) -> dict[str, tuple[int, str | None]]:
    """The fence of each thing, and by whose word it is known what became of it where it was in doubt at last."""
    with open_direct(home / "data" / "paddock.db") as database:
        rows = database.read(lambda tx: tx.all("SELECT key, fence, resolution FROM effects"))
    return {row["key"]: (row["fence"], row["resolution"]) for row in rows}
