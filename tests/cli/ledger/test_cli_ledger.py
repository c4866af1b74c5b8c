"""`paddock ledger`: people look at what happened, verify it, hand it to others and erase somebody from it."""

from __future__ import annotations

import getpass
import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.chains import Chain, called, run_example

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon
from fixtures.packages import native
from fixtures.prepared_homes import enabled_parrot, prepare_home
from paddock.store.database import open_direct


@pytest.fixture
async def told(paddock: Paddock, tmp_path: Path) -> Chain:
    """A home in which something was installed, then called by ann and bob, with a checkpoint after each."""
    paddock.quickly("plugin", "install", native(tmp_path / "notes"), "--yes")
    chain = Chain(f"sqlite://{paddock.home}/data/paddock.db", paddock.home / "state")
    chain.add(*(called(number, "ann" if number % 2 else "bob") for number in range(1, 6)))
    await chain.checkpoint()
    return chain


async def test_the_last_entries_are_shown_oldest_first_and_narrowed(paddock: Paddock, told: Chain) -> None:
    lines = paddock.quickly("ledger", "tail").out.splitlines()
    assert [line.split()[2:5] for line in lines[:2]] == [
        ["1", "plugin.installed", "notes"],
        ["2", "plugin.method_called", "notes.ädd"],
    ]
    assert len(lines) == 6

    def numbers(*words: object) -> list[int]:
        return [entry["seq"] for entry in paddock.quickly("ledger", "tail", "--json", *words).json["entries"]]

    assert numbers("--principal", "ann") == [2, 4, 6]
    assert numbers("--principal", f"local:{getpass.getuser()}") == [1]
    assert numbers("--type", "plugin.method_called", "-n", 2) == [5, 6]
    assert numbers("--type", "plugin.*", "--before", 3) == [1, 2]
    assert numbers("--request", "req_3") == numbers("--call", "call_3") == [4]
    assert numbers("--plugin", "other") == numbers("--until", "2001-01-01") == []
    assert numbers("--since", "2001-01-01T00:00+02:00", "--plugin", "notes") == [1, 2, 3, 4, 5, 6]
    assert paddock.quickly("ledger", "tail", "--since", "soon", "--json", code=6).error["code"] == "ledger.time"
    assert told.verify().verdict == "sound"


async def test_one_entry_or_all_of_a_call_is_shown_whole(paddock: Paddock, told: Chain) -> None:
    assert told.embedded
    (entry,) = paddock.quickly("ledger", "show", "req_3", "--json").json["entries"]
    assert (entry["call"], entry["personal"]["principal"]) == ("call_3", "ann")
    assert "operator_id      ann" in paddock.quickly("ledger", "show", entry["id"]).out
    assert paddock.quickly("ledger", "show", "call_9", "--json", code=3).error["code"] == "ledger.unknown"


async def test_an_entry_that_somebody_changed_is_not_shown_as_if_nothing_were(paddock: Paddock, told: Chain) -> None:
    assert paddock.quickly("ledger", "show", "call_3", "--json").json["altered"] == []
    told.change("UPDATE ledger SET plugin = 'other' WHERE call = 'call_3'")

    shown = paddock.quickly("ledger", "show", "call_3", "--json")
    assert shown.json["altered"] == [shown.json["entries"][0]["id"]]
    assert (
        "row 4 of the ledger, or one beside it, is not what was recorded"
        in paddock.quickly("ledger", "show", "call_3").err
    )
    assert paddock.quickly("ledger", "show", "call_5", "--json").json["altered"] == []


async def test_a_row_forged_before_the_first_fails_verification_and_is_not_shown(paddock: Paddock, told: Chain) -> None:
    told.change_as_owner(
        "DROP TRIGGER IF EXISTS ledger_inserts_from_row_1",
        "INSERT INTO ledger_kinds (chain, kind, type, facts) SELECT chain, 99, 'plugin.granted', '{}' "
        "FROM ledger_chains",
        "INSERT INTO ledger (chain, seq, id, at, kind, call, facts, hash) SELECT chain, 0, 'evt_0', at, "
        "99, 'call_x', '{}', hash FROM ledger WHERE seq = 1",
    )

    for words in ((), ("--anchor", told.checkpoints)):
        verified = paddock.quickly("ledger", "verify", "--json", *words, code=1)
        (chain,) = verified.json["chains"]
        assert (chain["verdict"], chain["seq"], chain["id"]) == ("tampered", 0, "evt_0")
    assert "plugin.granted" not in paddock.quickly("ledger", "tail").out
    for words in (("ledger", "show", "evt_0"), ("ledger", "show", "call_x"), ("explain", "call_x")):
        assert paddock.quickly(*words, "--json", code=3).error["code"].endswith(".unknown"), words


async def test_following_tells_one_object_a_line_until_interrupted(paddock: Paddock, told: Chain) -> None:
    with paddock.start("ledger", "tail", "--follow", "--json", "-n", 1) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        told.add(called(77))
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert (first["seq"], second["seq"], second["request"]) == (6, 7, "req_77")
    assert process.returncode == 130


def test_a_daemons_ledger_is_read_to_its_last_entry_and_followed_beyond_its_end(paddock: Paddock, source: Path) -> None:
    prepare_home(paddock, enabled_parrot)
    chain = Chain(f"sqlite://{paddock.home}/data/paddock.db", paddock.home / "state")
    with daemon(paddock) as served:
        call = served.ask("POST", "/plugins/parrot/call/say", {"text": "hello"}).body["call_id"]
        last = paddock.quickly("ledger", "tail", "-n", 1, "--json").json["entries"]
        shown = paddock.quickly("ledger", "show", call, "--json").json
        assert (last[0]["type"], last[0]["call"]) == ("call.ended", call)
        assert (shown["entries"][-1], shown["altered"]) == (last[0], [])
        with paddock.start("ledger", "tail", "--follow", "--json", "-n", 1) as process:
            assert process.stdout is not None
            followed = map(json.loads, process.stdout)
            assert next(followed) == last[0]
            call = served.ask("POST", "/plugins/parrot/call/say", {"text": "again"}).body["call_id"]
            assert any(entry["call"] == call for entry in followed)
            served.stop()
            chain.add(called(77))
            assert any(entry["request"] == "req_77" for entry in followed)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
    assert process.returncode == 130


def test_the_chain_of_a_tenant_that_somebody_deleted_is_read_with_a_daemon_and_without(paddock: Paddock) -> None:
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "ann", "--tenant", "acme")
    Chain(f"sqlite://{paddock.home}/data/paddock.db", paddock.home / "state").change(
        "DELETE FROM people", "DELETE FROM tenants WHERE name = 'acme'"
    )
    without = paddock.quickly("ledger", "tail", "--tenant", "acme", "--json").json
    with daemon(paddock):
        assert paddock.quickly("ledger", "tail", "--tenant", "acme", "--json").json == without
        entry = without["entries"][-1]
        assert paddock.quickly("ledger", "show", entry["id"], "--tenant", "acme", "--json").json["entries"] == [entry]
        said = paddock.quickly("ledger", "tail", "--tenant", "acne", "--json", code=3)
        assert said.error["code"] == "tenant.not_found"


@pytest.mark.req("B-06", "verify")
async def test_verifying_ends_with_what_was_found(paddock: Paddock, told: Chain, tmp_path: Path) -> None:
    anchor = tmp_path / "default.checkpoints.jsonl"
    anchor.write_bytes(told.checkpoints.read_bytes())
    assert "default: sound (6 rows, 2 checkpoints)" in paddock.quickly("ledger", "verify", "--anchor", anchor).out
    screen = paddock.on_terminal("ledger", "verify")
    assert "100 % of 6 rows" in screen
    told.change("DELETE FROM ledger WHERE seq = 6")
    assert paddock.quickly("ledger", "verify", "--json", code=2).json["verdict"] == "truncated"
    told.change("UPDATE ledger SET facts = '{}' WHERE seq = 3")
    assert "tampered at row 3 (evt_" in paddock.quickly("ledger", "verify", code=1).out
    told.key.write_text("no key")
    assert paddock.quickly("ledger", "verify", "--json", code=3).json["chains"][0]["verdict"] == "unreadable"
    told.file.write_bytes(b"no database" * 1000)
    assert paddock.quickly("ledger", "verify", "--json", code=3).json["verdict"] == "unreadable"


async def test_a_tenant_that_nobody_knows_is_refused_and_a_chain_that_is_gone_is_missed(
    paddock: Paddock, told: Chain, tmp_path: Path
) -> None:
    file = tmp_path / "ledger.jsonl"
    file.write_text("an older one")
    for words in (("verify",), ("tail",), ("export", file), ("export",)):
        said = paddock.quickly("ledger", *words, "--tenant", "defualt", "--json", code=3)
        assert said.error["code"] == "tenant.not_found", words
    assert file.read_text() == "an older one"
    paddock.quickly("tenant", "add", "acme")
    assert "acme: nothing was recorded yet" in paddock.quickly("ledger", "verify").out
    assert paddock.quickly("ledger", "tail", "--tenant", "acme", "--json").json["entries"] == []
    told.change("DELETE FROM ledger", "DELETE FROM ledger_heads", "DELETE FROM ledger_checkpoints")
    assert "default: truncated at row 1" in paddock.quickly("ledger", "verify", code=2).out
    told.checkpoints.unlink()
    assert "there is a key that has signed" in paddock.quickly("ledger", "verify", code=2).out


def test_in_a_new_home_nothing_was_recorded_yet(paddock: Paddock) -> None:
    said = paddock.quickly("ledger", "verify")
    assert (said.out, said.err.strip()) == ("", "nothing was recorded yet")


async def test_an_export_is_verified_by_somebody_who_has_nothing_else(
    paddock: Paddock, told: Chain, tmp_path: Path
) -> None:
    file = tmp_path / "ledger.jsonl"
    said = paddock.quickly("ledger", "export", file, "--json").json
    assert (said["entries"], said["checkpoints"]) == (6, 2)
    assert paddock.quickly("ledger", "export").out == file.read_text()
    assert paddock.quickly("ledger", "export", "-").out == file.read_text()
    unwritable = paddock.quickly("ledger", "export", tmp_path / "absent" / "ledger.jsonl", code=6).err
    assert f"cannot write {tmp_path}/absent/ledger.jsonl: No such file or directory" in unwritable
    assert run_example(file, "--key", told.key) == 0
    file.write_text(file.read_text().replace("req_3", "req_4"))
    assert run_example(file, "--key", told.key) == 1


async def test_erasing_needs_a_yes_and_a_reason(paddock: Paddock, told: Chain) -> None:
    paddock.quickly("ledger", "erase", "ann", code=2)
    paddock.quickly("ledger", "erase", "ann", "--reason", "asked", code=4)
    assert paddock.quickly("ledger", "tail", "--principal", "ann", "--json").json["entries"]
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        database.write(
            lambda tx: tx.execute("INSERT INTO quota_use VALUES ('default', 'principal', 'ann', '2030-01-01', 3)")
        )
    erased = paddock.quickly("ledger", "erase", "ann", "--reason", "asked", "--yes", "--json").json
    assert erased == {"tenant": "default", "erased": 3, "cleared": 1, "left_in": None}
    assert not paddock.quickly("ledger", "tail", "--principal", "ann", "--json").json["entries"]
    said = paddock.quickly("ledger", "verify")
    assert "sound" in said.out
    assert "3 rows said of people" in said.out
    assert told.example() == 0


def test_a_daemon_erases_what_it_has_not_written_yet_as_well(paddock: Paddock, source: Path) -> None:
    prepare_home(paddock, enabled_parrot)
    paddock.quickly("user", "add", "ann", "--role", "member")
    with daemon(paddock) as served:
        # In one breath, as two commands would not be: the call's entry is written when 50 ms have passed.
        call, erasure = in_one_breath(
            served.socket,
            posting("/plugins/parrot/call/say", {"text": "hello"}, "paddock-as: user:ann"),
            posting("/erasures", {"principal": "user:ann", "reason": "asked"}, "connection: close"),
        )
        (entry,) = paddock.quickly("ledger", "show", call["call_id"], "--json").json["entries"]
        recorded = served.ask("GET", "/ledger?type=ledger.erased").body["entries"]
    assert (entry["erased"], entry["personal"], recorded[0]["facts"]["entries"]) == (True, {}, erasure["erased"])
    assert "sound" in paddock.quickly("ledger", "verify").out


def posting(path: str, body: object, header: str) -> bytes:
    text = json.dumps(body)
    head = (f"POST /api/v1{path} HTTP/1.1", "host: localhost", f"content-length: {len(text)}", header)
    return "\r\n".join((*head, "", text)).encode()


def in_one_breath(where: Path, *requests: bytes) -> list[Any]:
    """What is answered to requests that are sent together, the last of which closes the connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(where))
        connection.sendall(b"".join(requests))
        answers = b"".join(iter(lambda: connection.recv(65536), b""))
    return [json.loads(answer.partition(b"\r\n\r\n")[2]) for answer in answers.split(b"HTTP/1.1 ")[1:]]
