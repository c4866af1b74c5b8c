"""Verifies a Paddock ledger without Paddock: nothing of it is imported here, only its documents were read.

    python verify_ledger.py EXPORT.jsonl --key ledger.pub
    python verify_ledger.py paddock.db --checkpoints default.checkpoints.jsonl --key ledger.pub

Exits 0 when the chain is sound, 1 when it was tampered with, 2 when it was cut short, 3 when it cannot be read.
"""

import argparse
import base64
import hashlib
import json
import sqlite3
import sys
from decimal import Decimal
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

HASHED = ("at", "call", "facts", "id", "plugin", "request", "seq", "tenant", "type")


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


def wrong_with(row, seq, prev):
    if row["seq"] != seq:
        return "is missing"
    record = {name: row[name] for name in HASHED} | {"personal": row["commitment"], "prev": prev, "v": 1}
    if sha(b"paddock.ledger.entry.v1\0", canonical(record).encode()).hex() != row["hash"]:
        return "is not what its hash says"
    personal = row["personal"]
    if personal is None:
        return "was half erased" if row["salt"] or row.get("principal") else ""
    committed = sha(b"paddock.ledger.personal.v1\0", bytes.fromhex(row["salt"] or "") + canonical(personal).encode())
    who = personal.get("principal")
    if (committed.hex(), row.get("principal", who)) != (row["commitment"], who):  # an export has no such column
        return "says something else of a person than was recorded"
    return ""


def verify(rows, points, key, head=None, noted=0):
    """The exit code, and what to say."""
    hashes, erased, told = ["0" * 64], [], []
    for row in rows:
        wrong = wrong_with(row, len(hashes), hashes[-1])
        if wrong:
            return 1, f"row {len(hashes)} {wrong}"
        hashes.append(row["hash"])
        erased += [row["seq"]] if row["commitment"] and row["personal"] is None else []
        told += row["facts"]["rows"] if row["type"] == "ledger.erased" else []
    previous, reached = "0" * 64, 0
    for number, point in enumerate(points, 1):
        body = {name: value for name, value in point.items() if name != "signature"}
        try:
            signature = base64.b64decode(point["signature"], validate=True)
            key.verify(signature, b"paddock.ledger.checkpoint.v1\0" + canonical(body).encode())
        except (InvalidSignature, ValueError):
            return 1, f"checkpoint {number} has a false signature"
        if (point["previous"], point["from_seq"]) != (previous, reached + 1):
            return 1, f"checkpoint {number} does not follow the one before"
        previous, reached = hashlib.sha256(canonical(point).encode()).hexdigest(), point["to_seq"]
        if reached >= len(hashes):
            return 2, f"rows up to {reached} were signed, and the last one here is {len(hashes) - 1}"
        signed = [bytes.fromhex(one) for one in hashes[point["from_seq"] : reached + 1]]
        if (root(signed).hex(), hashes[reached]) != (point["root"], point["head"]):
            return 1, f"rows {point['from_seq']} to {reached} are not those that were signed"
    if head and head != (len(hashes) - 1, hashes[-1]):
        return (2 if head[0] >= len(hashes) else 1), f"the chain does not end at its head, row {head[0]}"
    if reached < noted:
        return 2, f"checkpoints up to row {noted} were made, and those here end at {reached}"
    for seq in erased:
        if not any(first <= seq <= last for first, last in told):
            return 1, f"row {seq} was erased, and nobody said so"
    return 0, f"sound: {len(hashes) - 1} rows, {len(erased)} erased, {len(points)} checkpoints up to row {reached}"


def lines_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]  # as text it would have more kinds of lines


def from_export(path):
    lines = lines_of(path)
    points = [line["checkpoint"] for line in lines if "checkpoint" in line]
    return [line for line in lines if "checkpoint" not in line], points, None, 0


def parsed(text):
    try:
        value = text and json.loads(text)
    except ValueError:
        return text
    return value if text is None or canonical(value) == text else text  # as it was written, or not at all


def from_database(path, tenant):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    rows = []
    for row in map(dict, database.execute("SELECT * FROM ledger WHERE tenant = ? ORDER BY seq", (tenant,))):
        row |= {name: parsed(row[name]) for name in ("facts", "personal")}
        rows.append(row | {name: row[name] and row[name].hex() for name in ("salt", "commitment", "hash")})
    head = database.execute("SELECT seq, hash FROM ledger_heads WHERE tenant = ?", (tenant,)).fetchone() or (0, b"")
    noted = database.execute("SELECT max(to_seq) FROM ledger_checkpoints WHERE tenant = ?", (tenant,)).fetchone()[0]
    return rows, [], (head[0], head[1].hex()) if rows else None, noted or 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help="an export, or the database file")
    parser.add_argument("--key", type=Path, required=True, help="the public key, as PEM")
    parser.add_argument("--checkpoints", type=Path, help="the file of checkpoints; an export has its own")
    parser.add_argument("--tenant", default="default")
    given = parser.parse_args()
    try:
        embedded = given.ledger.read_bytes()[:6] == b"SQLite"
        rows, points, *ends = from_database(given.ledger, given.tenant) if embedded else from_export(given.ledger)
        if given.checkpoints:
            points = lines_of(given.checkpoints)
        code, said = verify(rows, points, load_pem_public_key(given.key.read_bytes()), *ends)
    except (OSError, ValueError, KeyError, TypeError, sqlite3.Error) as error:
        code, said = 3, f"cannot be read: {error}"
    print(said)
    return code


if __name__ == "__main__":
    sys.exit(main())
