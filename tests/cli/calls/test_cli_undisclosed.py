"""What a call used and did not disclose is told in words by every command that looks at it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtimes.test_python_code import kernel

from fixtures.commands import Paddock
from fixtures.daemons import daemon

CODE = """
def run(request):
    return {"status": "succeeded", "result": {"text": "Dear Ada"}, "metrics": {"tokens_out": 380}}
"""
WORDS = "it used a model, and did not say so"


@pytest.mark.req("K-10", "model")
def test_a_flagged_call_is_told_as_one(paddock: Paddock, tmp_path: Path) -> None:
    paddock.quickly("plugin", "install", kernel(tmp_path / "p", "operator", CODE), "--yes")
    paddock.quickly("plugin", "enable", "Our.Thing", "--no-start")
    with daemon(paddock):
        made = paddock("call", "Our.Thing", "--json").json
        shown = paddock("call", "show", made["call_id"]).err
    explained = paddock.quickly("explain", made["call_id"])
    (entry,) = paddock.quickly("ledger", "show", made["call_id"], "--json").json["entries"]

    assert made["undisclosed"] == entry["facts"]["undisclosed"] == ["model"]
    assert paddock.quickly("explain", made["call_id"], "--json").json["calls"][0]["undisclosed"] == ["model"]
    for told in (shown, explained.out, paddock.quickly("ledger", "show", entry["id"]).out):
        assert WORDS in told
