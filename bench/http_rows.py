"""A route of our API, a row with JSON Schema, against the same one with FastAPI: see docs/design/0025-http-routes.md.

Each runs in a process of its own without a network: CPU from before its first import until it can answer, memory that
it then keeps beyond what was loaded already (Starlette; for ours also the host), and CPU of one request with a body and
a query that are checked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from _peers import python_with, version_of
from _side_by_side import Report, options

SERVED = Path(__file__).with_name("_rows_served.py")
SOURCE = Path(__file__).parents[1] / "src"


def run(which: str) -> dict[str, float]:
    python = sys.executable if which == "rows" else str(python_with("fastapi"))
    environment = os.environ | ({"PYTHONPATH": str(SOURCE)} if which == "rows" else {})
    told = subprocess.run([python, SERVED, which], check=True, capture_output=True, text=True, env=environment)
    return json.loads(told.stdout)


def main() -> None:
    given = options(__doc__)
    rounds = 3 if given.quick else 10
    found: dict[str, list[dict[str, float]]] = {"rows": [], "fastapi": []}
    for _ in range(rounds):
        for which, runs in found.items():
            runs.append(run(which))
    best = {which: {key: min(one[key] for one in runs) for key in runs[0]} for which, runs in found.items()}
    report = Report(
        "http_rows",
        given,
        f"FastAPI {version_of('fastapi')}; the best of {rounds} processes each.",
        ("", "ready after", "keeps", "a request"),
    )
    for which, title in (("rows", "our rows"), ("fastapi", "FastAPI")):
        one = best[which]
        report.row(
            title, f"{one['built'] * 1e3:.0f} ms", f"{one['kept'] / 1e6:.1f} MB", f"{one['request'] * 1e6:.0f} µs"
        )
    report.says(f"FastAPI's CPU of a request is {best['fastapi']['request'] / best['rows']['request']:.1f} times ours")
    report.finish()


main()
