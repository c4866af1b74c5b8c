"""Why a plugin ended, in words that a person can do something with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.paced_loop import paced
from tests.runtime.stage import Stage
from tests.runtime.witness import fallen

from fixtures.all_cases import all_cases
from paddock.cage.spec import ProcessExit
from paddock.core.action import Action
from paddock.core.ids import PluginName
from paddock.manifest.model import CommandRuntime, Dialect, Manifest
from paddock.runtime.diagnosis import Diagnosis, diagnose_exit, grant_advice


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


def why(*stderr: str, code: int | None = 1, answered: bool = True, **ended: object) -> Diagnosis:
    return diagnose_exit("actor", ProcessExit(code, **ended), stderr, answered=answered)  # type: ignore[arg-type]


@all_cases(
    ("said", "reason", "hint"),
    [
        ("ModuleNotFoundError: No module named 'numpy'", "its Python module numpy", "beside the program"),
        ("ImportError: Failed to initialize: Bad git executable.", "it runs the program git", "exec:git:/"),
        (
            "ImportError: cannot import name 'x' from 'y'",
            "an import failed: cannot import name",
            "include everything that it imports",
        ),
        ("Error: Cannot find module 'express'", "its Node module express", "npm install"),
        (
            "a.out: error while loading shared libraries: libx.so.1: cannot open",
            "library libx.so.1",
            "into the package",
        ),
        ("/bin/sh: line 1: jq: command not found", "it runs the program jq", "exec:jq:/"),
        ("env: ‘node’: No such file or directory", "it runs the program node", "exec:node:/"),
        ("env: jq: command not found", "it runs the program jq", "exec:jq:/"),
        ("env: 'jq': Permission denied", "it runs the program jq", "exec:jq:/"),
        ("./main: line 12: jq: command not found", "it runs the program jq", "exec:jq:/"),
        ("./main: 12: jq: not found", "it runs the program jq", "exec:jq:/"),
        ("bash: line 1: /usr/bin/jq: Permission denied", "it runs the program jq", "exec:jq:/"),
        ("./main: line 2: /usr/bin/jq: No such file or directory", "it runs the program jq", "exec:jq:/"),
        ("Error: spawn jq ENOENT", "it runs the program jq", "exec:jq:/"),
        ("PermissionError: [Errno 13] Permission denied: '/usr/bin/jq'", "it runs the program jq", "exec:jq:/"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'jq'", "it looked for jq", "exec:jq:/"),
        ("./main: line 2: /srv/a.txt: No such file or directory", "it looked for /srv/a.txt", "read:fs:/srv/a.txt"),
        ("sh: 1: cannot create /srv/a.txt: Permission denied", "write to /srv/a.txt", " write:fs:/srv/a.txt"),
        ("OSError: [Errno 30] Read-only file system: '/srv/a.txt'", "write to /srv/a.txt", " write:fs:/srv/a.txt"),
        ("Error: EROFS: read-only file system, open '/srv/a'", "write to /srv/a", " write:fs:/srv/a"),
        ("Error: ENOENT: no such file or directory, mkdir '/srv/a'", "write to /srv/a", " write:fs:/srv/a"),
        ("PermissionError: [Errno 13] Permission denied: '/etc/x'", "it may not use /etc/x", "read:fs:/etc/x"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/srv/a'", "it looked for /srv/a", "read:fs:/srv/a"),
        (
            "python3: can't open file '/srv/x/server.py': [Errno 2] No such file or directory",
            "it looked for /srv/x/server.py",
            "read:fs:/srv/x/server.py",
        ),
        ("Error: Cannot find module '/srv/x/server.js'", "it looked for /srv/x/server.js", "read:fs:/srv/x/server.js"),
        ("PermissionError: [Errno 13] Permission denied: '/root/.ssh/id'", "it may not use", "do not grant it"),
        ("SyntaxError: invalid syntax", "its code cannot be parsed: invalid syntax", "older than it needs"),
        ("MemoryError", "it ran out of memory", "limits.memory_mb"),
        ("socket.gaierror: [Errno -3] Temporary failure", "a host that it was not granted", "net:HOST:PORT, or net:*"),
        ("Error: getaddrinfo EAI_AGAIN api.example.com", "not granted", "net:api.example.com:443, or net:*"),
    ],
)
def test_what_a_plugin_said_last_is_read_and_turned_into_advice(said: str, reason: str, hint: str) -> None:
    diagnosis = why("Traceback (most recent call last):", said, answered=False)
    assert diagnosis.reason.startswith("it ended before it answered the handshake: ") and reason in diagnosis.reason
    assert hint in diagnosis.hint


def test_one_that_served_is_not_said_to_have_ended_of_what_it_may_have_lived_with() -> None:
    diagnosis = why("./main: line 12: date: command not found", code=9)
    assert diagnosis.reason.startswith("it ended with exit status 9; perhaps: it runs the program date")
    assert why("./main: line 12: date: command not found", code=None, signal=11).reason.startswith(
        "it was ended by SIGSE"
    )


def test_a_server_that_can_declare_nothing_is_given_more_by_the_line_in_the_advice() -> None:
    runtime = CommandRuntime(("environment:files", "/srv/share"), "mcp")
    server = Manifest(name=PluginName("files"), version="1.0.0", dialect=Dialect.MCP, description="", runtime=runtime)
    said = ["Error: ENOENT: no such file or directory, stat '/srv/share'"]
    diagnosis = diagnose_exit("files", ProcessExit(1), said, answered=False, advice=grant_advice(server))
    assert diagnosis.action == Action.of("plugin.upgrade", plugin="files", capabilities=("read:fs:/srv/share",))
    said = ["OSError: [Errno 30] Read-only file system: '/srv/share'"]
    diagnosis = diagnose_exit("files", ProcessExit(1), said, answered=False, advice=grant_advice(server))
    assert diagnosis.action == Action.of("plugin.upgrade", plugin="files", capabilities=("write:fs:/srv/share",))


@pytest.mark.parametrize("error", ["SyntaxError: invalid syntax", "IndentationError: unexpected indent"])
def test_code_that_cannot_be_read_is_named_with_its_file_and_line(error: str) -> None:
    words = error.partition(": ")[2]
    diagnosis = why(
        '  File "/opt/x/helper.py", line 9, in <module>', '  File "/opt/x/main.py", line 3', "    def :", error
    )

    assert diagnosis.reason.endswith(f"its code cannot be parsed: {words} (/opt/x/main.py, line 3)")
    assert "older" not in diagnosis.hint


@pytest.mark.parametrize(
    ("diagnosis", "reason"),
    [
        (why(code=None, signal=9, cause="memory"), "it exceeded its memory limit"),
        (
            why(code=None, signal=9, cause="memory", answered=False),
            "it exceeded its memory limit, before it answered the handshake",
        ),
        (why(code=None, signal=9, cause="warden_lost"), "it was ended by the host (warden_lost)"),
        (why(code=None, signal=11), "it was ended by SIGSEGV"),
        (why(code=None, signal=31), "it was ended by SIGSYS"),
        (why(code=None, signal=50), "it was ended by signal 50"),
        (why("bye", code=0), "it ended by itself; its last log line: bye"),
        (why(code=4), "it ended with exit status 4; it wrote nothing to its log"),
        (
            why('{"level": "error", "time": "2026", "message": "the spring broke"}', code=4),
            "it ended with exit status 4; its last log line: the spring broke",
        ),
        (why('{"message": 5}', code=4), 'it ended with exit status 4; its last log line: {"message": 5}'),
        (why('{"message', code=4), 'it ended with exit status 4; its last log line: {"message'),
        (why("one", "two", "  ", code=4), "it ended with exit status 4; its last log line: two"),
    ],
)
def test_how_a_process_ended_is_said_in_words(diagnosis: Diagnosis, reason: str) -> None:
    assert diagnosis.reason == reason


def test_a_forbidden_system_call_is_named_as_such() -> None:
    assert why(code=None, signal=31).hint == "it used a system call that plugins may not use"


@given(st.lists(st.text(max_size=400), max_size=5), st.lists(st.text(max_size=400), max_size=3), st.booleans())
def test_whatever_a_plugin_says_the_reason_is_one_printable_line(
    stderr: list[str], noise: list[str], answered: bool
) -> None:
    diagnosis = diagnose_exit("actor", ProcessExit(1), stderr, answered=answered, noise=noise)
    assert diagnosis.reason.isprintable()
    assert diagnosis.hint.isprintable()
    assert len(diagnosis.reason) < 600


@pytest.mark.parametrize(
    ("script", "reason", "hint"),
    [
        pytest.param(
            "import a_library_of_mine",
            "before it answered the handshake: its Python module a_library_of_mine cannot be imported in the cage",
            "put a_library_of_mine into the package",
            id="a missing module",
        ),
        pytest.param(
            'open("/srv/not-granted/data.csv")',
            "before it answered the handshake: it looked for /srv/not-granted/data.csv, which the cage does not show",
            "read:fs:/srv/not-granted/data.csv",
            id="a missing file",
        ),
        pytest.param("def :", "main.py, line ", "author has to fix it", id="broken code"),
    ],
)
async def test_a_real_plugin_that_cannot_start_is_told_what_it_lacks(
    stage: Stage, script: str, reason: str, hint: str
) -> None:
    status, _ = await fallen(stage.actor(script))
    assert reason in status.reason
    assert hint in status.hint
