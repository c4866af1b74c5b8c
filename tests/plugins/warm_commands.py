"""Commands in forks of one warm process: hundreds of them in seconds, each of which can be killed at a chosen step.

Reads one JSON request a line on stdin and answers with one JSON line on stdout. A step is anything that changes the
file system, as Python's audit hooks see it, or a commit of the database. The kill comes just before the step is taken,
so that killing at every number leaves every state in which a command can die.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

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

    for descriptor, name, flags in (
        (0, "/dev/null", os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, request["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update(request["environment"])
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
    import apsw  # noqa: F401 - warm
    import tomlkit  # noqa: F401
    import yaml  # noqa: F401

    import paddock

    for module in pkgutil.walk_packages(paddock.__path__, "paddock."):
        if not module.name.endswith("__main__") and "postgres" not in module.name:
            import_module(module.name)
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
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    serve()
