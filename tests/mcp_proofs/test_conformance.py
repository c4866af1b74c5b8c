"""The official conformance suite against `/mcp`, with plugins of ours behind it: every scenario, except for reasons."""

from __future__ import annotations

import json
import re
from collections.abc import Set
from pathlib import Path

import pytest
from tests.mcp_proofs.conftest import Suited
from tests.mcp_proofs.doorway import doorway
from tests.mcp_proofs.node import node

pytestmark = pytest.mark.registry

_NO_MODEL = "a plugin gets neither a model nor the folders of whoever calls it: its cage says what it reaches"
_NO_TASKS = "the Tasks extension is not offered; what takes long is followed by its call id"
_NO_SUCH_REQUEST = "a server that has done with handshakes has no such request, and cannot be asked"
EXCEPT = {
    "tools-call-sampling": _NO_MODEL,
    "input-required-result-basic-sampling": _NO_MODEL,
    "input-required-result-basic-list-roots": _NO_MODEL,
    "input-required-result-multiple-input-requests": _NO_MODEL,
    "input-required-result-capability-check": _NO_MODEL,
    "http-custom-header-server-validation": "no argument is asked for in a header, so there is none to compare",
    "tasks-lifecycle": _NO_TASKS,
    "tasks-capability-negotiation": _NO_TASKS,
    "tasks-wire-fields": _NO_TASKS,
    "tasks-request-state-removal": _NO_TASKS,
    "tasks-mrtr-input": _NO_TASKS,
    "tasks-request-headers": _NO_TASKS,
    "tasks-dispatch-and-envelope": _NO_TASKS,
    "tasks-required-task-error": _NO_TASKS,
    "tasks-mrtr-composition": _NO_TASKS,
}
EXCEPT_OF_STATELESS_SERVERS = {"resources-subscribe": _NO_SUCH_REQUEST, "resources-unsubscribe": _NO_SUCH_REQUEST}
LEAST = {"2025-06-18": 27, "2025-11-25": 33, "2026-07-28": 50}
"""How many scenarios there are at least for a revision: a suite that runs nothing proves nothing."""

_RESULT = re.compile(r"^([✓✗]) ([a-z0-9-]+): (\d+) passed, (\d+) failed$", re.MULTILINE)


def chosen(revision: str) -> list[str]:
    """The options that choose the scenarios of a revision. Two of them have a list of what they require."""
    if revision == "2025-06-18":
        return ["--suite", "all", "--spec-version", revision]
    return ["--requirements", revision]


@pytest.mark.req("B-01", "any client")
@pytest.mark.parametrize("suited", ["2026-07-28"], indirect=True)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_passes_but_those_that_have_a_reason(
    npm_programs: Path, suited: Suited, tmp_path: Path, revision: str
) -> None:
    excused = EXCEPT.keys() | EXCEPT_OF_STATELESS_SERVERS.keys()
    meets_all_but(excused, npm_programs, suited, tmp_path, revision)


@pytest.mark.parametrize("suited", ["handshake"], indirect=True)
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_every_scenario_passes_too_where_the_server_itself_wants_a_handshake(
    npm_programs: Path, suited: Suited, tmp_path: Path, revision: str
) -> None:
    meets_all_but(EXCEPT.keys(), npm_programs, suited, tmp_path, revision)


def meets_all_but(excused: Set[str], programs: Path, suited: Suited, folder: Path, revision: str) -> None:
    with doorway(suited.daemon.tcp, suited.key) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        words = ["node_modules/.bin/conformance", "server", "--url", url, *chosen(revision), "-o", str(folder)]
        done = node(programs, *words)

    results = {name: mark == "✓" for mark, name, _, _ in _RESULT.findall(done.stdout)}
    assert len(results) >= LEAST[revision], done.stdout[-3000:] + done.stderr[-1000:]
    failed = {name for name, passed in results.items() if not passed}
    unexpected = sorted(failed - excused)
    assert unexpected == [], "\n".join(line for name in unexpected for line in _why(folder, name))
    assert failed == results.keys() & excused, "what passes by now needs no exception any more"


def _why(folder: Path, scenario: str) -> list[str]:
    """What the suite says of the checks of a scenario that failed."""
    checks = [one for path in folder.glob(f"server-{scenario}-2*/checks.json") for one in json.loads(path.read_text())]
    return [f"{scenario}: {one['id']}: {one.get('errorMessage')}" for one in checks if one["status"] == "FAILURE"]
