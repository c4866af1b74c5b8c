"""Commands in forks of one warm process: hundreds of them in seconds, each of which can be killed at a chosen step.

Reads one JSON request a line on stdin and answers with one JSON line on stdout. A step is anything that changes the
file system, as Python's audit hooks see it, or a commit of the database. The kill comes just before the step is taken,
so that killing at every number leaves every state in which a command can die.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from fixtures.ready_server import load, put_on

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
STEPS = frozenset(
    {
        "os.mkdir",
        "os.rename",
        "os.remove",
        "os.rmdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "os.chmod",
        "fcntl.flock",
    }
)


class Counter:
    """Counts steps; at the fatal one the process ends as if its power had been cut."""

    def __init__(self, fatal: int) -> None:
        self.steps = 0
        self._fatal = fatal

    def step(self) -> None:
        self.steps += 1
        if self.steps == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in STEPS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            self.step()

    def before_commit(self) -> bool:
        self.step()
        return False  # go on

    def watch_connection(self, connection: Any) -> None:
        connection.set_commit_hook(self.before_commit)


def run(request: dict[str, Any], answer: int) -> None:
    """In the child: be the command."""
    import apsw

    from paddock.cli.main import app

    empty = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = ((os.devnull, os.O_RDONLY), (request["out"], empty), (request["err"], empty))
    put_on([os.open(name, flags, 0o600) for name, flags in files], request["environment"])
    counter = Counter(request["fatal"])
    apsw.connection_hooks.append(counter.watch_connection)
    sys.addaudithook(counter.audit)
    code = 0
    try:
        app(request["arguments"], prog_name="paddock")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(answer, json.dumps({"code": code, "steps": counter.steps}).encode())


def serve() -> None:
    load()
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                run(json.loads(line), writer)
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
                sys.stderr.flush()
            os._exit(70)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        done = json.loads(said) if said else {"code": None if killed else os.waitstatus_to_exitcode(status), "steps": 0}
        sys.stdout.write(json.dumps(done | {"killed": killed}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
