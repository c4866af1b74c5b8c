"""A `console` block as a session: what is typed, what is said to come out, and whether it does.

    $ paddock plugin check broken    # exit 6
    capabilities[2] ...
    ...

A line that starts with `$ ` is typed; `> ` continues it. It must succeed, or end as its `# exit N` says. Lines below
it must be its output; `...` stands for anything in a line and, alone, for any lines. No lines below: any output is
fine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

EXIT = re.compile(r"\s+# exit (\d+)$")
END = "\x1e"


@dataclass(slots=True)
class Typed:
    """One command with what the page says of it."""

    command: str
    line: int
    status: int = 0
    output: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Happened:
    """What it really did."""

    status: int
    output: str


def typed(text: str, first_line: int) -> list[Typed]:
    """The commands of one block.

    Raises:
        ValueError: output stands before any command.
    """
    commands: list[Typed] = []
    for number, line in enumerate(text.splitlines(), start=first_line + 1):
        if line.startswith("$ "):
            ends = EXIT.search(line)
            command = EXIT.sub("", line[2:])
            commands.append(Typed(command, number, int(ends[1]) if ends else 0))
        elif not commands:
            raise ValueError(f"line {number}: a console block starts with a command: $ …")
        elif line.startswith("> ") and not commands[-1].output:
            commands[-1].command += "\n" + line[2:]
        else:
            commands[-1].output.append(line)
    return commands


def run(commands: Sequence[Typed], folder: Path, environment: Mapping[str, str], seconds: float) -> list[Happened]:
    """Type all commands into one shell, so that `cd` and `export` last, and note how each ended."""
    script = "".join(f"{{ {one.command}\n}} </dev/null 2>&1; printf '{END}%s{END}' $?\n" for one in commands)
    shell = subprocess.Popen(
        ["/bin/sh", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with shell:
        try:
            output, errors = shell.communicate(timeout=seconds)
        except BaseException:  # in its own session, not even Ctrl-C reaches it
            os.killpg(shell.pid, signal.SIGKILL)  # with what it started: a daemon would keep its port
            raise
    parts = output.decode("utf-8", "replace").split(END)
    happened = [Happened(int(status), text) for text, status in zip(parts[0::2], parts[1::2], strict=False)]
    if len(happened) < len(commands):
        at = commands[len(happened)]
        raise AssertionError(f"line {at.line}: `{at.command}` ended the shell\n{errors.decode(errors='replace')}")
    return happened


def agrees(expected: Sequence[str], output: str) -> bool:
    """Is the output what the page shows?"""
    if not any(line.strip() for line in expected):
        return True
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += ".*".join(re.escape(piece) for piece in line.rstrip().split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, output.strip("\n") + "\n") is not None
