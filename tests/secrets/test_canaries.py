"""Fifty secrets are used in calls that succeed, fail, crash and are lost, and are then looked for everywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from fixtures.commands import SOURCE, Paddock
from fixtures.daemons import daemon
from fixtures.packages import native, write_file
from paddock.store.database import open_direct

from . import planted
from .haystacks import files_below, processes, seen, written
from .planted import NAMES, OF_ALL, VALUES
from .story import LITERAL, Story, tell_everything, typed
from .web import Web


def assert_unseen(story: Story) -> None:
    """See that none of them is anywhere; but what an MCP server is started with its own process shows."""
    # The half of one says more than none; and where no half is found, there is no whole.
    half = {name: value[:16] for name, value in VALUES.items()}
    beside = {place: hay for place, hay in story.places.items() if place not in story.kept_by_server}
    assert seen([half[name] for name in NAMES if name not in LITERAL], story.places) == []
    assert seen([half[name] for name in LITERAL], beside) == []
    shown = seen([half[name] for name in LITERAL], {place: story.places[place] for place in story.kept_by_server})
    assert {place for _, _, place in shown} == story.kept_by_server
    assert b"secret.used" in story.places["export"]
    assert seen(NAMES, {"export": story.places["export"]}), "names are on record"


@pytest.mark.req("S-29", "never returned or logged")
def test_none_of_fifty_secrets_is_anywhere_but_in_the_plugin_that_asked(paddock: Paddock, tmp_path: Path) -> None:
    assert_unseen(tell_everything(paddock, tmp_path))


@pytest.mark.req("S-29", "never returned or logged")
@pytest.mark.slow
def test_none_of_them_is_in_a_server_of_postgresql_its_files_or_its_log(postgres_address: str, tmp_path: Path) -> None:
    story = tell_everything(Paddock(tmp_path / "home", postgres_address), tmp_path)
    with psycopg.connect(postgres_address) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        )
        for (table,) in tables.fetchall():
            rows = connection.execute(f'SELECT "{table}"::text FROM "{table}"'.encode()).fetchall()
            story.places[f"table {table}"] = "\n".join(row for (row,) in rows).encode()
        connection.execute("CHECKPOINT")
        server = Path(str(conninfo_to_dict(postgres_address)["host"]))
    story.places |= files_below(server)
    assert story.places["table secrets"] and any("pg_wal" in place for place in story.places)
    assert_unseen(story)


@pytest.mark.req("S-29", "never returned or logged")
def test_a_value_that_is_sent_to_the_api_is_in_no_answer_log_or_entry_even_if_the_request_is_wrong(
    paddock: Paddock, tmp_path: Path
) -> None:
    talkative = Paddock(paddock.home, more={"PADDOCK_LOG_LEVEL": "debug", "PADDOCK_DEBUG": "1"})
    story, value, digits = Story(talkative, tmp_path, Web(tmp_path)), VALUES[OF_ALL[0]], "8675309" * 5
    story.places["set in process"] = typed(talkative, OF_ALL[0])
    with daemon(talkative) as running:
        story.places["set by the daemon"] = typed(talkative, OF_ALL[0])
        wrong = (
            *(
                {"value": value, "valeu": value},
                {"value": [value]},
                {"value": {"text": value}},
                {"value": value * 3000},
            ),
            *(f'{{"value": {digits}}}'.encode(), f'{{"value": "{value}'.encode(), f'["{value}"]'.encode()),
        )
        for body in wrong:
            answer = story.ask(running, "PUT", f"/secrets/{OF_ALL[1]}", body)
            assert answer.status == 400, (body, answer)
        for path in ("/secrets/two%20words", "/secrets/k?owner=nobody", "/secrets/k?tenant=nobody", "/secrets"):
            assert story.ask(running, "PUT", path, {"value": value}).status in (400, 404, 405), path
        assert story.ask(running, "PUT", f"/secrets/{OF_ALL[1]}", {"value": f"{value}\0"}).body["version"] == 1
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert story.ask(running, "PUT", "/secrets/k", f"value={value}".encode(), **form).status == 415
        story.told("secret", "list", "--json")
        story.told("secret", "rotate", "--yes", "--json")
        story.told("ledger", "tail", "--json")
    story.places["daemon"] = "".join(running.log).encode()
    story.keep_files("afterwards")

    assert b"PUT /api/v1/secrets/" in story.places["daemon"], "requests are logged"
    assert seen([value[:16], digits[:14]], story.places) == []


DRAWER = """
import json
from pathlib import Path
from types import SimpleNamespace

FILE = Path(__file__).with_name("drawer.json")

def get_keyring():
    return SimpleNamespace(priority=5)

def _entries():
    return json.loads(FILE.read_text()) if FILE.exists() else {}

def get_password(service, name):
    return _entries().get(name)

def set_password(service, name, text):
    FILE.write_text(json.dumps(_entries() | {name: text}))

def delete_password(service, name):
    FILE.write_text(json.dumps({one: text for one, text in _entries().items() if one != name}))
"""


@dataclass(frozen=True)
class KeyPlace:
    """One place for the key, outside of the home but for a file, and what a host is told of it."""

    source: str
    folder: Path
    home: Path
    given: str = field(default_factory=lambda: secrets.token_hex(32))

    def settings(self) -> dict[str, str]:
        file = write_file(self.folder / "paddock-kek", self.given)
        file.chmod(0o600)
        write_file(self.folder / "keyring.py", DRAWER)  # the package of that name, and a desktop's keyring behind it
        more = {
            "passphrase": {"PADDOCK_SECRETS_PASSPHRASE_FILE": str(file)},
            "credential": {"CREDENTIALS_DIRECTORY": str(self.folder)},
            "keyring": {"PYTHONPATH": f"{SOURCE}:{self.folder}"},
        }
        return {"PADDOCK_SECRETS_KEY": self.source, **more.get(self.source, {})}

    def wrapping(self) -> set[bytes]:
        """The keys that data keys are wrapped with right now."""
        match self.source:
            case "credential":
                return {bytes.fromhex(self.given)}
            case "keyring":
                return {bytes.fromhex(one) for one in json.loads((self.folder / "drawer.json").read_text()).values()}
            case "file":
                return {bytes.fromhex(one.read_text()) for one in (self.home / "state/keys/secrets").iterdir()}
            case _:
                with open_direct(self.home / "data" / "paddock.db") as database:
                    rows = database.read(lambda tx: tx.all("SELECT salt FROM secret_keys"))
                cost: dict[str, int] = {"n": 1 << 16, "r": 8, "p": 1, "maxmem": 1 << 27, "dklen": 32}
                return {hashlib.scrypt(self.given.encode(), salt=row["salt"], **cost) for row in rows}


@pytest.mark.parametrize(
    "source", ["passphrase", *(pytest.param(one, marks=pytest.mark.slow) for one in ("credential", "keyring")), "file"]
)
def test_the_key_for_secrets_and_what_opens_it_are_nowhere_else(paddock: Paddock, tmp_path: Path, source: str) -> None:
    place = KeyPlace(source, tmp_path / "elsewhere", paddock.home)
    paddock = Paddock(paddock.home, more=place.settings(), fresh=source == "keyring")
    name, story = OF_ALL[0], Story(paddock, tmp_path, Web(tmp_path))
    story.told("plugin", "install", planted.keeper(tmp_path / "keeper"), "--yes")
    story.told("plugin", "enable", "keeper", "--yes", "--no-start")
    story.places["set"] = typed(paddock, name)
    keys = place.wrapping()
    with daemon(paddock) as running:
        for _ in range(2):
            answer = story.call(running, "keeper.use", {"name": name})
            assert answer.body["result"]["length"] == len(VALUES[name]), answer
        story.places |= processes()
        story.keep_files("running")
        if source != "credential":
            story.told("secret", "rotate", "--yes", as_process=True)
            answer = story.call(running, "keeper.use", {"name": name})
            assert answer.body["result"]["length"] == len(VALUES[name]), answer
    story.places["daemon"] = "".join(running.log).encode()
    story.keep_files("afterwards")
    keys |= place.wrapping()
    assert len(keys) == (1 if source == "credential" else 2)
    kept = {where for where in story.places if f"{paddock.home}/state/keys/secrets/" in where}
    assert bool(kept) == (source == "file")
    beside = {where: hay for where, hay in story.places.items() if where not in kept}
    assert seen([VALUES[name][:16], place.given[:32]], story.places) == []
    needles = [one for key in keys for one in (key[:16], key.hex()[:32].encode(), base64.b64encode(key)[:40])]
    assert not [
        where for where, hay in beside.items() if any(needle in hay.lower() or needle in hay for needle in needles)
    ]
    assert not kept or all(any(needle in story.places[where] for needle in needles) for where in kept), (
        "it would be found"
    )


GIVEN_AWAY = """
from paddock_sdk import Plugin

plugin = Plugin("leaky", "1.0.0")

@plugin.tool
def leak(params, context):
    log, row, audit, kept, answer, error = [plugin.host.secrets.get(name).wait() for name in params["names"]]
    plugin.log.warning("it is " + log)
    plugin.host.sql.exec("CREATE TABLE IF NOT EXISTS t (a)").wait()
    plugin.host.sql.exec("INSERT INTO t VALUES (?)", [row.encode().hex()]).wait()
    plugin.host.audit.write("used", value=audit[::-1]).wait()
    plugin.host.artifacts.put(kept.encode("utf-16-le")).wait()
    if params["fails"]:
        raise RuntimeError(error)
    return {"value": answer}

plugin.run()
"""


def test_what_a_plugin_gives_away_is_found_where_it_gave_it(paddock: Paddock, tmp_path: Path) -> None:
    names = OF_ALL[:6]
    leak = {"name": "leak", "description": "x", "effects": ["db_write"], "input_schema": {"type": "object"}}
    package = native(
        tmp_path / "leaky",
        "leaky",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=["host:secrets", "host:artifacts", "storage:write"],
        secrets=names,
        tools=[leak],
    )
    write_file(package / "main.py", GIVEN_AWAY)
    story = Story(paddock, tmp_path, Web(tmp_path))
    story.told("plugin", "install", package, "--yes")
    story.told("plugin", "enable", "leaky", "--yes", "--no-start")
    story.keep(names)
    with daemon(paddock) as running:
        for fails in (False, True):
            story.call(running, "leaky.leak", {"names": names, "fails": fails})
        story.ask(running, "GET", "/plugins/leaky/logs")
    # A plugin's audit entries are written soon, not at once; a stopped daemon has written all of them.
    story.keep_files("afterwards")
    export = tmp_path / "export.jsonl"
    story.told("ledger", "export", export)
    story.places["export"] = export.read_bytes()
    found = {(name, how, where) for name in names for _, how, where in seen([VALUES[name][:16]], story.places)}
    ways = {name: {how for one, how, _ in found if one == name} for name in names}
    log, row, audit, kept, answer, error = names
    assert ways == {
        log: {"as it is"},
        row: {"hexadecimal"},
        audit: {"backwards"},
        kept: {"UTF-16"},
        answer: {"as it is"},
        error: {"as it is"},
    }
    where = {name: " ".join(place for one, _, place in found if one == name) for name in names}
    assert "/state/logs/" in where[log] and "GET /plugins/leaky/logs" in where[log]
    assert "/data/storage/" in where[row]
    assert "export" in where[audit] and "paddock.db" in where[audit]
    assert "/data/artifacts/" in where[kept]
    assert "POST /plugins/leaky/call/leak" in where[answer] and "paddock.db" in where[answer], "its result is kept"
    assert "/state/logs/" in where[error], "its traceback"


@pytest.mark.req("S-29", "never returned or logged")
@pytest.mark.parametrize("how", written("x"))
def test_the_search_finds_a_secret_in_every_encoding_and_place(tmp_path: Path, how: str) -> None:
    value = VALUES[NAMES[7]]
    for number, needle in enumerate(written(value)[how]):
        write_file(tmp_path / f"{number}", "").write_bytes(b"before " + needle + b" after")
    found = seen(VALUES.values(), files_below(tmp_path))
    assert {(one[0], one[1]) for one in found} >= {(value, how)}
    assert {one[0] for one in found} == {value}


@pytest.mark.parametrize("how", written("x"))
def test_where_a_secret_stands_its_half_is_found_too(how: str) -> None:
    value = VALUES[NAMES[7]]
    for needle in written(value)[how]:
        assert seen([value[:16]], {"hay": b"before " + needle + b" after"}), needle


def test_the_search_finds_a_secret_inside_of_longer_base64_and_among_processes() -> None:
    value = VALUES[NAMES[8]]
    for before in ("", "a", "ab"):
        hay = base64.b64encode(f"{before}{value} and more".encode())
        assert ("base64", "hay") in [one[1:] for one in seen([value], {"hay": hay})]
    waiting = "import sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", waiting, value], stdin=subprocess.PIPE, env={"CANARY": VALUES[NAMES[9]]}
    ) as child:
        found = [seen(VALUES.values(), processes(root)) for root in (child.pid, None)]
        child.communicate()
    for one in found:
        assert {(value, place.partition("/")[2]) for value, how, place in one if how == "as it is"} == {
            (value, "cmdline"),
            (VALUES[NAMES[9]], "environ"),
        }
