"""Every way to change a chain is found, with the row that is the first to be wrong, by two verifiers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.ledger.chains import Chain, called, new_chain, run_example
from tests.ledger.test_went_wrong import ended

from fixtures.ledger_rows import of_tenant
from paddock.core.errors import HostError, NotFound
from paddock.ledger.chain.checkpoint import checkpoint_file, parse_checkpoint, sign_checkpoint
from paddock.ledger.chain.signing_key import key_id
from paddock.store.database import open_direct

COPY = "INSERT INTO ledger (chain, seq, id, at, kind, template, facts, hash)"
FACTS = "(SELECT replace(facts, '\x02', '\"req_7\"') FROM ledger_templates WHERE template = 1)"
ROW = f"WHERE {of_tenant()} AND seq = 7"

EDITS = {
    "chain": (f"UPDATE ledger SET chain = chain + 1 {ROW}", 7),
    "seq": (f"UPDATE ledger SET seq = 700 {ROW}", 7),
    "id": (f"UPDATE ledger SET id = 'evt_0' {ROW}", 7),
    "at": (f"UPDATE ledger SET at = '2001-01-01T00:00:00+00:00' {ROW}", 7),
    "kind": (f"UPDATE ledger SET kind = kind + 1 {ROW}", 7),
    "kind, to none": (f"UPDATE ledger SET kind = 99 {ROW}", 7),
    "plugin": (f"UPDATE ledger SET plugin = 'other' {ROW}", 7),
    "plugin, to nothing": (f"UPDATE ledger SET plugin = NULL {ROW}", 7),
    "call": (f"UPDATE ledger SET call = 'call_0' {ROW}", 7),
    "request": (f"UPDATE ledger SET request = NULL {ROW}", 7),
    "principal": (f"UPDATE ledger SET principal = 'mallory' {ROW}", 7),
    "principal, to nothing": (f"UPDATE ledger SET principal = NULL {ROW}", 7),
    "principal, of nobody": ("UPDATE ledger SET principal = 'mallory' WHERE seq = 12", 12),
    "facts": (f"UPDATE ledger SET facts = 'x' {ROW}", 7),
    "facts, to those of another callable": (
        f"UPDATE ledger SET template = NULL, facts = replace({FACTS}, 'd', 'o') {ROW}",
        7,
    ),
    "facts, by a space": (f"UPDATE ledger SET template = NULL, facts = replace({FACTS}, ',', ', ') {ROW}", 7),
    "facts, to what is no JSON": (f"UPDATE ledger SET template = NULL, facts = 'nothing' {ROW}", 7),
    "template, to nothing": (f"UPDATE ledger SET template = NULL {ROW}", 7),
    "template, to none": (f"UPDATE ledger SET template = 99 {ROW}", 7),
    "personal": (f"UPDATE ledger SET personal = replace(personal, 'bob', 'eve') {ROW}", 7),
    "personal, to nothing": (f"UPDATE ledger SET personal = NULL {ROW}", 7),
    "salt": (f"UPDATE ledger SET salt = (SELECT salt FROM ledger WHERE seq = 8) {ROW}", 7),
    "salt, to nothing": (f"UPDATE ledger SET salt = NULL {ROW}", 7),
    "commitment": (f"UPDATE ledger SET commitment = hash {ROW}", 7),
    "commitment, of an erased row": ("UPDATE ledger SET commitment = salt WHERE seq = 5", 5),
    "commitment, of an erased row, to another": ("UPDATE ledger SET commitment = hash WHERE seq = 5", 5),
    "hash": (f"UPDATE ledger SET hash = (SELECT hash FROM ledger WHERE seq = 8) {ROW}", 7),
    "an erasure by hand": (f"UPDATE ledger SET personal = NULL, salt = NULL, principal = NULL {ROW}", 7),
    "an erased row that is filled again": ("UPDATE ledger SET principal = 'eve' WHERE seq = 5", 5),
    "a deleted row": (f"DELETE FROM ledger {ROW}", 7),
    "the first row deleted": ("DELETE FROM ledger WHERE seq = 1", 1),
}


@pytest.fixture
async def chain(database_address: str, tmp_path: Path) -> Chain:
    return await new_chain(database_address, tmp_path / "state")


@pytest.mark.req("B-06", "verify")
async def test_each_edit_of_a_row_is_found_and_the_row_named(chain: Chain) -> None:
    assert (chain.verify().verdict, chain.verify().rows, chain.verify().erased) == ("sound", 30, 1)
    assert chain.example() == 0
    if chain.embedded:
        assert chain.example_on_file() == 0
    kept = {name: table(chain, name) for name in ("ledger", "ledger_heads")}
    for name, (statement, seq) in EDITS.items():
        chain.change(statement)
        finding = chain.verify()
        assert (finding.verdict, finding.seq) == ("tampered", seq), name
        if name.partition(",")[0] not in ("principal", "an erased row that is filled again", "facts"):
            assert chain.example() == 1, name  # an export is made of whole entries, and the index is no part of it
        if chain.embedded:
            assert chain.example_on_file() == 1, name
        restore(chain, kept)
    assert chain.verify().verdict == "sound"


ENDS = {
    "the last rows": (["DELETE FROM ledger WHERE seq > 25"], "truncated", 26),
    "the last row": (["DELETE FROM ledger WHERE seq = 30"], "truncated", 30),
    "signed rows, and the head set back": (
        [
            "DELETE FROM ledger WHERE seq > 15",
            "UPDATE ledger_heads SET seq = 15, hash = (SELECT hash FROM ledger WHERE seq = 15)",
        ],
        "truncated",
        16,
    ),
    "all rows": (["DELETE FROM ledger"], "truncated", 1),
    "all rows and the head": (["DELETE FROM ledger", "DELETE FROM ledger_heads"], "truncated", 1),
    "the head gone": (["DELETE FROM ledger_heads"], "tampered", 30),
    "the head set back": (["UPDATE ledger_heads SET seq = 29"], "tampered", 30),
    "the head changed": (["UPDATE ledger_heads SET hash = (SELECT hash FROM ledger WHERE seq = 3)"], "tampered", 30),
    "two rows swapped": (
        [
            "UPDATE ledger SET seq = 900 WHERE seq = 7",
            "UPDATE ledger SET seq = 7 WHERE seq = 8",
            "UPDATE ledger SET seq = 8 WHERE seq = 900",
        ],
        "tampered",
        7,
    ),
    "what two rows say swapped": (
        [
            "UPDATE ledger SET request = (SELECT two.request FROM ledger AS two WHERE two.seq = 15 - ledger.seq) "
            "WHERE seq IN (7, 8)"
        ],
        "tampered",
        7,
    ),
    "a row put in": (
        [
            "UPDATE ledger SET seq = seq + 1000 WHERE seq > 7",
            "UPDATE ledger SET seq = seq - 999 WHERE seq > 1000",
            f"{COPY} SELECT chain, 8, 'evt_x', at, kind, template, facts, hash FROM ledger WHERE seq = 7",
        ],
        "tampered",
        8,
    ),
    "a row put behind the last": (
        [f"{COPY} SELECT chain, 31, 'evt_x', at, kind, template, facts, hash FROM ledger WHERE seq = 30"],
        "tampered",
        31,
    ),
}  # fmt: skip


@pytest.mark.req("B-06", "verify")
async def test_rows_cut_off_swapped_or_put_in_are_found(chain: Chain) -> None:
    kept = {name: table(chain, name) for name in ("ledger", "ledger_heads")}
    for name, (statements, verdict, seq) in ENDS.items():
        chain.change(*statements)
        finding = chain.verify()
        assert (finding.verdict, finding.seq) == (verdict, seq), name
        if chain.embedded:
            assert chain.example_on_file() == {"tampered": 1, "truncated": 2}[verdict], name
        restore(chain, kept)
    chain.change("DELETE FROM ledger WHERE seq > 15")
    assert chain.example() == 2, "an export of what is left says so too"


@pytest.mark.req("B-06", "signed checkpoints outside the database")
@pytest.mark.parametrize(("kept_rows", "first_signed"), [(0, 1), (12, 11)])
async def test_a_chain_that_is_written_anew_with_right_hashes_is_not_what_was_signed(
    chain: Chain, kept_rows: int, first_signed: int
) -> None:
    head = f"(SELECT hash FROM ledger WHERE seq = {kept_rows})"
    rewind = f"UPDATE ledger_heads SET seq = {kept_rows}, hash = {head}" if kept_rows else "DELETE FROM ledger_heads"
    chain.change(f"DELETE FROM ledger WHERE seq > {kept_rows}", rewind)
    chain.add(*(called(number, "eve") for number in range(kept_rows, 30)))
    finding = chain.verify()
    assert finding.verdict == "tampered"
    assert finding.seq == first_signed
    assert "are not those that were signed" in finding.what
    assert chain.example() == 1
    with pytest.raises(HostError) as refused:
        await chain.checkpoint()
    assert refused.value.error_code == "ledger.broken", "nothing is signed on top of it"


@pytest.mark.req("B-06", "signed checkpoints outside the database")
async def test_each_edit_of_the_checkpoints_is_found(chain: Chain) -> None:
    first, second = chain.checkpoints.read_bytes().splitlines()
    for name, value in json.loads(first).items():
        other = value + 1 if isinstance(value, int) else f"0{value[1:]}" if value[0] != "0" else f"1{value[1:]}"
        edited = json.dumps({**json.loads(first), name: other}, separators=(",", ":"), sort_keys=True).encode()
        chain.checkpoints.write_bytes(b"%s\n%s\n" % (edited, second))
        assert (chain.verify().verdict, chain.verify().seq) == ("tampered", 1), name
        assert chain.example() == 1, name
    for lines, verdict in {
        (second,): "tampered",
        (second, first): "tampered",
        (first, b"{}"): "tampered",
        (first, second, b"x"): "tampered",
        (first, second, second): "tampered",
        (first,): "truncated",
        (): "truncated",
    }.items():
        chain.checkpoints.write_bytes(b"".join(line + b"\n" for line in lines))
        assert chain.verify().verdict == verdict, lines
        if chain.embedded and lines != (second,):
            assert chain.example_on_file() == {"tampered": 1, "truncated": 2}[verdict], lines
    chain.checkpoints.unlink()
    finding = chain.verify()
    if chain.embedded:  # on a server this may be another node's home
        assert finding.verdict == "truncated"
    chain.checkpoints.write_bytes(b"%s\n%s\n%s" % (first, second, second[:40]))
    assert chain.verify().verdict == "sound", "a line that was never finished counts for nothing"


async def test_a_rewritten_chain_with_checkpoints_of_another_key_is_told_by_the_key_kept_elsewhere(
    chain: Chain, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "ledger.pub"
    elsewhere.write_bytes(chain.key.read_bytes())
    key = Ed25519PrivateKey.generate()
    forged: list[bytes] = []
    for line in chain.checkpoints.read_bytes().splitlines():
        read = parse_checkpoint(line)
        assert read is not None
        body: dict[str, Any] = read.body() | {"key_id": key_id(key.public_key().public_bytes_raw())}
        if forged:
            before = parse_checkpoint(forged[-1])
            assert before is not None
            body["previous"] = before.digest()
        forged.append(sign_checkpoint(key, type(read)(**body)).line())
    chain.checkpoints.write_bytes(b"".join(line + b"\n" for line in forged))
    assert chain.verify().verdict == "tampered"
    assert chain.example() == 1
    chain.key.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    if chain.embedded:
        assert chain.verify().verdict == "truncated", "those of the key that the database knows are gone"
    assert chain.verify(keys=[elsewhere]).verdict == "tampered"
    assert run_example(chain.export(), "--key", elsewhere) == 1


async def test_the_last_line_kept_elsewhere_holds_a_chain_whose_own_checkpoints_were_cut_too(
    chain: Chain, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "anchor.jsonl"
    first, second = chain.checkpoints.read_bytes().splitlines()
    elsewhere.write_bytes(second + b"\n")
    assert chain.verify(anchors=[elsewhere]).verdict == "sound"
    assert run_example(chain.export(), "--key", chain.key, "--checkpoints", elsewhere) == 0
    chain.checkpoints.write_bytes(first + b"\n")
    chain.change(
        "DELETE FROM ledger WHERE seq > 12",
        "UPDATE ledger_heads SET seq = 12, hash = (SELECT hash FROM ledger WHERE seq = 12)",
        "UPDATE ledger_checkpoints SET to_seq = 10",
    )
    finding = chain.verify(anchors=[elsewhere])
    assert (finding.verdict, finding.seq) == ("truncated", 13)
    assert run_example(chain.export(), "--key", chain.key, "--checkpoints", elsewhere) == 2
    assert chain.verify(anchors=[tmp_path / "nowhere"]).verdict == "unreadable"
    elsewhere.write_bytes(second[:-2] + b"}\n")
    assert chain.verify(anchors=[elsewhere]).verdict == "tampered"


async def test_a_chain_that_is_gone_as_a_whole_is_missed_though_nobody_names_its_tenant(chain: Chain) -> None:
    names = ["beta", "c" * 300, "ü / 2"]
    for name in names:
        chain.add(called(1), called(2), tenant=name)
    await chain.checkpoint()
    everything = ("ledger_heads", "ledger_checkpoints", "ledger_chains")
    for name in names:
        chain.change(f"DELETE FROM ledger WHERE {of_tenant(name)}")
        chain.change(*(f"DELETE FROM {table} WHERE tenant = '{name}'" for table in everything))
    found = {finding.tenant: (finding.verdict, finding.seq) for finding in chain.verify_all()}
    assert found == {"default": ("sound", None)} | dict.fromkeys(names, ("truncated", 1))
    checkpoint_file(chain.state, "c" * 300).write_bytes(b"nonsense\n")
    checkpoint_file(chain.state, "beta").write_bytes(b"nonsense\n")
    assert [finding.verdict for finding in chain.verify_all()].count("tampered") == 2
    chain.change("DELETE FROM ledger", *(f"DELETE FROM {table}" for table in everything))
    assert {finding.verdict for finding in chain.verify_all()} == {"truncated", "tampered"}
    for file in (chain.state / "ledger").iterdir():
        file.unlink()
    assert [finding.verdict for finding in chain.verify_all()] == ["sound", "truncated"], "there is a key, so there was"
    chain.key.unlink()
    assert [(finding.verdict, finding.empty) for finding in chain.verify_all()] == [("sound", True)]


async def test_a_copy_kept_elsewhere_misses_a_chain_of_which_nothing_is_left_here(chain: Chain, tmp_path: Path) -> None:
    chain.add(called(1), tenant="beta")
    await chain.checkpoint()
    beta = checkpoint_file(chain.state, "beta")
    both, key = tmp_path / "both.jsonl", tmp_path / "key.pub"
    both.write_bytes(chain.checkpoints.read_bytes() + beta.read_bytes().rstrip())  # an end of line gets lost
    key.write_bytes(chain.key.read_bytes())
    assert [finding.verdict for finding in chain.verify_all(anchors=[both], keys=[key])] == ["sound", "sound"]
    one = tmp_path / "one.jsonl"
    one.write_bytes(beta.read_bytes())
    assert [finding.verdict for finding in chain.verify_all(anchors=[one])] == ["sound", "sound"], "of another tenant"
    finding = chain.verify("default", anchors=[one])
    assert (finding.verdict, finding.what) == ("unreadable", f"{one} holds no checkpoint of this tenant")
    assert chain.verify("default", anchors=[one, both]).verdict == "sound"
    one.write_bytes(b"")
    assert [finding.verdict for finding in chain.verify_all(anchors=[one])] == ["unreadable"]
    one.write_bytes(b"nonsense\n")
    assert [finding.verdict for finding in chain.verify_all(anchors=[one])] == ["tampered", "tampered"]
    chain.change(f"DELETE FROM ledger WHERE {of_tenant('beta')}")
    for table in ("ledger_heads", "ledger_checkpoints", "ledger_chains"):
        chain.change(f"DELETE FROM {table} WHERE tenant = 'beta'")
    beta.unlink()
    assert [finding.verdict for finding in chain.verify_all()] == ["sound"]
    assert [finding.verdict for finding in chain.verify_all(anchors=[both])] == ["truncated", "sound"]
    assert chain.verify("beta", anchors=[both]).verdict == "truncated"


async def test_a_tenant_that_nobody_knows_is_not_sound(chain: Chain) -> None:
    with pytest.raises(NotFound) as refused:
        chain.verify("defualt")
    assert refused.value.error_code == "tenant.not_found"
    chain.change("INSERT INTO tenants (name, title, created_at) VALUES ('acme', 'Acme', '2030')")
    assert chain.verify("acme").empty
    assert [(finding.tenant, finding.empty) for finding in chain.verify_all()] == [("acme", True), ("default", False)]


async def test_an_export_that_was_cut_anywhere_is_not_sound(chain: Chain) -> None:
    lines = chain.export().read_bytes().splitlines(keepends=True)
    assert len(lines) == 33
    for count in range(33):
        cut = chain.state / "cut.jsonl"
        cut.write_bytes(b"".join(lines[:count]))
        assert run_example(cut, "--key", chain.key) == 2, count
    for gone, code in {0: 1, 19: 1, 25: 1, 29: 2, 30: 0, 31: 0, 32: 2}.items():  # a checkpoint holds all before it
        cut.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        assert run_example(cut, "--key", chain.key) == code, gone
    cut.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"checkpoint"')))
    assert run_example(cut, "--key", chain.key) == 4, "it fits together, and nobody has signed it"
    assert run_example(chain.export(), "--key", chain.key, "--tenant", "default") == 0
    assert run_example(chain.export(), "--key", chain.key, "--tenant", "defualt") == 1


async def test_the_other_verifier_keeps_the_head_of_a_chain_without_rows_and_knows_no_mistyped_tenant(
    sqlite_address: str, tmp_path: Path
) -> None:
    chain = Chain(sqlite_address, tmp_path / "state")
    chain.add(called(1), called(2))
    await chain.checkpoint()
    words = (chain.file, "--key", chain.key)
    assert run_example(*words, "--checkpoints", chain.checkpoints) == 0
    assert run_example(*words) == 2, "the database knows that there were checkpoints"
    assert run_example(*words, "--tenant", "defualt") == 3
    chain.change("DELETE FROM ledger_checkpoints")
    assert run_example(*words) == 4
    chain.change("DELETE FROM ledger")
    assert run_example(*words) == 2


def table(chain: Chain, name: str) -> list[dict[str, Any]]:
    with open_direct(chain.address) as database:
        return database.read(lambda tx: tx.all(f"SELECT * FROM {name}"))


def restore(chain: Chain, kept: dict[str, list[dict[str, Any]]]) -> None:
    with open_direct(chain.address) as database:
        for name, rows in kept.items():
            columns = ", ".join(rows[0])
            marks = ", ".join("?" * len(rows[0]))
            insert = f"INSERT INTO {name} ({columns}) VALUES ({marks})"
            database.write(lambda tx, name=name: tx.execute(f"DELETE FROM {name}"))
            database.write(
                lambda tx, insert=insert, rows=rows: [tx.execute(insert, [*row.values()]) for row in rows]  # type: ignore[misc]
            )


SHARED = {
    "the type of a kind": ("UPDATE ledger_kinds SET type = 'plugin.spawned' WHERE type = 'plugin.crashed'", 20),
    "the facts of a kind": ("UPDATE ledger_kinds SET facts = '{\"status\":\"x\"}' WHERE type = 'plugin.crashed'", 20),
    "a kind that is gone": ("DELETE FROM ledger_kinds WHERE type = 'plugin.crashed'", 20),
    "a template": ("UPDATE ledger_templates SET facts = replace(facts, 'notes', 'other')", 1),
    "a template with another gap": ("UPDATE ledger_templates SET facts = replace(facts, 'notes', '\x01')", 1),
    "a template that is gone": ("DELETE FROM ledger_templates", 1),
    "the earliest time": ("UPDATE ledger_times SET first_at = last_at", 1),
    "the latest time": ("UPDATE ledger_times SET last_at = first_at", 1),
    "the times gone": ("DELETE FROM ledger_times", 1),
}


@pytest.mark.req("B-06", "verify")
async def test_each_edit_of_what_rows_share_is_found_in_the_first_row_that_has_it(chain: Chain) -> None:
    names = ("ledger_kinds", "ledger_templates", "ledger_times")
    kept = {name: table(chain, name) for name in names}
    for name, (statement, seq) in SHARED.items():
        chain.change(statement)
        finding = chain.verify()
        assert (finding.verdict, finding.seq) == ("tampered", seq), name
        if chain.embedded and "facts of a kind" not in name and "time" not in name:  # the other one reads by no index
            assert chain.example_on_file() == 1, name
        restore(chain, kept)
    assert chain.verify().verdict == "sound"


@pytest.mark.req("B-06", "verify")
async def test_a_failure_hidden_by_splitting_the_same_facts_otherwise_is_found(
    sqlite_address: str, tmp_path: Path
) -> None:
    chain = Chain(sqlite_address, tmp_path / "state")
    chain.add(ended("succeeded"), ended("failed"), ended("failed"))
    (kind,) = (one for one in table(chain, "ledger_kinds") if '"success":false' in str(one["facts"]))
    row = next(one for one in table(chain, "ledger") if one["seq"] == 2)
    template = next(one for one in table(chain, "ledger_templates") if one["template"] == row["template"])
    listed = {
        name: value for name, value in json.loads(str(kind["facts"])).items() if name not in ("status", "success")
    }
    # What is hashed stays the same; the facts by which failures are listed are now values of the row.
    split = re.sub(r'"(status|success)":("failed"|false)', '"\\1":\x01', str(template["facts"]))
    values = dict(zip(gaps_of(str(template["facts"])), str(row["facts"]).split("\x01"), strict=False))
    values |= {"status": '"failed"', "success": "false"}
    with open_direct(chain.address) as database:
        database.write(
            lambda tx: (
                tx.execute("INSERT INTO ledger_templates VALUES (?, 999, ?, ?)", (row["chain"], b"x", split)),
                tx.execute(
                    "INSERT INTO ledger_kinds VALUES (?, 999, ?, ?)", (row["chain"], kind["type"], dumps(listed))
                ),
                tx.execute(
                    "UPDATE ledger SET template = 999, kind = 999, facts = ? WHERE seq = 2",
                    ("\x01".join(values[name] for name in gaps_of(split)),),
                ),
            )
        )
    finding = chain.verify()
    assert (finding.verdict, finding.seq) == ("tampered", 2)


def gaps_of(template: str) -> list[str]:
    """The facts of a template that are values of its rows."""
    return re.findall(r'"(\w+)":\x01', template)


def dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
