"""Verifies a Paddock ledger without Paddock: nothing of it is imported here, only its documents were read.

    python verify_ledger.py EXPORT.jsonl --key ledger.pub
    python verify_ledger.py paddock.db --checkpoints default.checkpoints.jsonl --key ledger.pub

Exits 0 when the chain is sound, 1 when it was tampered with, 2 when it was cut short, 3 when it cannot be read or is
not there, 4 when it fits together and nothing of it is signed. Of the checkpoints the last line alone is enough.
"""

import argparse
import base64
import hashlib
import json
import sqlite3
import sys
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

HASHED = ("at", "call", "facts", "id", "plugin", "request", "seq", "tenant", "type")
BEGINNING, PERSONAL = "0" * 64, b"paddock.ledger.personal.v1\0"


def canonical(value):  # RFC 8785
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: pair[0].encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(inner)}" for key, inner in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if not isinstance(value, float):
        return json.dumps(value, ensure_ascii=False)
    if not value or 1e-6 <= abs(value) < 1e21:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    digits, _, exponent = repr(value).partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent):+d}"


def sha(domain, content):
    return hashlib.sha256(domain + content).digest()


def root(leaves):  # RFC 6962
    if len(leaves) == 1:
        return sha(b"\0", leaves[0])
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha(b"\1", root(leaves[:half]) + root(leaves[half:]))


def wrong_with(row, tenant, seq, prev):
    if (row["tenant"], row["seq"]) != (tenant, seq):
        return "is missing"
    record = {name: row[name] for name in HASHED} | {"personal": row["commitment"], "prev": prev, "v": 1}
    if sha(b"paddock.ledger.entry.v1\0", canonical(record).encode()).hex() != row["hash"]:
        return "is not what its hash says"
    facts, personal = row["facts"], row["personal"]
    if row["type"] == "ledger.erased":
        whole = all(type(first) is type(last) is int and 0 < first <= last < seq for first, last in facts["rows"])
        if not whole or sum(last - first + 1 for first, last in facts["rows"]) != facts["entries"]:
            return "tells of an erasing that cannot have been"
    if not isinstance(facts, dict):
        return "has no facts"
    if personal is None:
        return "was half erased" if row["salt"] or row.get("principal") else ""
    committed = sha(PERSONAL, bytes.fromhex(row["salt"] or "") + canonical(personal).encode())
    who = personal.get("principal")
    if (committed.hex(), row.get("principal", who)) != (row["commitment"], who):  # an export has no such column
        return "says something else of a person than was recorded"
    return ""


def signed(point, key):
    body = {name: value for name, value in point.items() if name != "signature"}
    try:
        signature = base64.b64decode(point["signature"], validate=True)
        key.verify(signature, b"paddock.ledger.checkpoint.v1\0" + canonical(body).encode())
    except (InvalidSignature, KeyError, TypeError, ValueError):
        return False
    return True


def verify(tenant, rows, points, keys, head, noted=0):
    """The exit code, and what to say."""
    hashes, erased, told = [BEGINNING], [], []
    for row in rows:
        try:
            wrong = wrong_with(row, tenant, len(hashes), hashes[-1])
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            wrong = "is not written as rows are"
        if wrong:
            return 1, f"row {len(hashes)} {wrong}"
        hashes.append(row["hash"])
        erased += [row["seq"]] if row["commitment"] and row["personal"] is None else []
        told += row["facts"]["rows"] if row["type"] == "ledger.erased" else []
    end, before, reached = len(hashes) - 1, None, 0
    for number, point in enumerate(points, 1):
        if not any(signed(point, key) for key in keys):
            return 1, f"checkpoint {number} has a false signature"
        if before and (point["previous"], point["from_seq"]) != (before, reached + 1):
            return 1, f"checkpoint {number} does not follow the one before"
        before, reached = hashlib.sha256(canonical(point).encode()).hexdigest(), point["to_seq"]
        if reached > end:
            return 2, f"rows up to {reached} were signed, and the last one here is {end}"
        leaves = [bytes.fromhex(one) for one in hashes[point["from_seq"] : reached + 1]]
        if (root(leaves).hex(), hashes[reached]) != (point["root"], point["head"]):
            return 1, f"rows {point['from_seq']} to {reached} are not those that were signed"
    if head is None:
        return 2, "the last line of an export, which says where the chain ends, is missing"
    if head != (end, hashes[-1]):
        return (2 if head[0] > end else 1), f"the chain does not end at its head, row {head[0]}"
    if reached < noted:
        return 2, f"checkpoints up to row {noted} were made, and those here end at {reached}"
    for seq in erased:
        if not any(first <= seq <= last for first, last in told):
            return 1, f"row {seq} was erased, and nobody said so"
    if not end:
        return 3, "nothing of this tenant is here"
    if not points:
        return 4, f"unsigned: {end} rows fit together, and no checkpoint says that they are those that were recorded"
    return 0, f"sound: {end} rows, {len(erased)} erased, {len(points)} checkpoints up to row {reached}"


def loaded(text, exact=False):
    try:
        value = json.loads(text)
        return value if not exact or canonical(value) == text else text
    except (RecursionError, ValueError):
        return text


def lines_of(path):
    lines = map(loaded, path.read_bytes().splitlines())  # as text it would have more kinds of lines
    return [line if isinstance(line, dict) else {} for line in lines]


def from_export(path):
    lines = lines_of(path)
    head = lines.pop()["head"] if lines and "head" in lines[-1] else None
    points = [line["checkpoint"] for line in lines if "checkpoint" in line]
    rows = [line for line in lines if "checkpoint" not in line]
    return rows, points, head and (head["seq"], head["hash"])


def filled(template, row):  # the gaps of a template are control characters, which JSON has not
    for gap, name in (("\x02", "request"), ("\x03", "call")):
        template = template.replace(gap, canonical(row[name]))
    pieces, values = template.split("\x01"), row["facts"].split("\x01") if row["facts"] else []
    if len(pieces) != len(values) + 1:
        return "does not fit its template"
    return "".join(piece + value for piece, value in zip(pieces, [*values, ""], strict=True))


def from_database(path, tenant):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return from_tables(database, tenant)


def from_tables(database, tenant):
    database.row_factory, database.text_factory = sqlite3.Row, lambda text: text.decode(errors="replace")
    chain, rows = database.execute("SELECT chain FROM ledger_chains WHERE tenant = ?", (tenant,)).fetchone() or (0,), []
    kinds = dict(map(tuple, database.execute("SELECT kind, type FROM ledger_kinds WHERE chain = ?", chain)))
    shared = dict(map(tuple, database.execute("SELECT template, facts FROM ledger_templates WHERE chain = ?", chain)))
    for row in map(dict, database.execute("SELECT * FROM ledger WHERE chain = ? ORDER BY seq", chain)):
        row |= {"tenant": tenant, "type": kinds.get(row["kind"])}
        if row["template"] is not None:
            row["facts"] = filled(shared.get(row["template"], ""), row)
        if row["personal"] and not row["commitment"]:  # only that of an erased row is stored
            row["commitment"] = sha(PERSONAL, (row["salt"] or b"") + row["personal"].encode())
        row |= {name: row[name] and loaded(row[name], exact=True) for name in ("facts", "personal")}
        rows.append(row | {name: row[name] and row[name].hex() for name in ("salt", "commitment", "hash")})
    head = database.execute("SELECT seq, lower(hex(hash)) FROM ledger_heads WHERE tenant = ?", (tenant,)).fetchone()
    noted = database.execute("SELECT max(to_seq) FROM ledger_checkpoints WHERE tenant = ?", (tenant,)).fetchone()[0]
    return rows, [], tuple(head) if head else (0, BEGINNING), noted or 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help="an export, or the database file")
    parser.add_argument("--key", type=Path, required=True, action="append", help="a public key, as PEM")
    parser.add_argument("--checkpoints", type=Path, help="lines of checkpoints; an export has its own")
    parser.add_argument("--tenant", help="whose chain: default, and of an export the one that it is of")
    given = parser.parse_args()
    try:
        embedded = given.ledger.read_bytes()[:6] == b"SQLite"
        tenant = given.tenant or "default"
        rows, points, *ends = from_database(given.ledger, tenant) if embedded else from_export(given.ledger)
        if rows and not given.tenant:
            tenant = rows[0].get("tenant")
        if given.checkpoints:
            points = lines_of(given.checkpoints)
        keys = [load_pem_public_key(key.read_bytes()) for key in given.key]
        code, said = verify(tenant, rows, points, keys, *ends)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, sqlite3.Error) as error:
        code, said = 3, f"cannot be read: {error}"
    print(said)
    return code


if __name__ == "__main__":
    sys.exit(main())
