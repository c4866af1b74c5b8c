"""`paddock mcp` as a client sees it that is no library: lines in, lines out, and how it ends."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tests.mcp_proofs.behind import command

from fixtures.commands import PATIENCE, Paddock

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "lines", "version": "1"}}


class Talk:
    """A client and the program that it started. Whatever that prints has to be a message."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.heard: list[dict[str, Any]] = []  # in order, what was asked for and what was not
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def say(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def until(self, **fields: Any) -> dict[str, Any]:
        """The next message with these fields; what comes before it is kept in `heard`."""
        while True:
            line = self._lines.get(timeout=PATIENCE)
            assert line, f"it ended before {fields}; heard {self.heard}"
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0", line
            self.heard.append(message)
            # By kind too: 1 and "1" are two.
            if all(name in message and json.dumps(message[name]) == json.dumps(one) for name, one in fields.items()):
                return message

    def ask(self, number: int | str, method: str, **params: Any) -> dict[str, Any]:
        """What a request is answered."""
        self.say(id=number, method=method, params=params)
        return self.until(id=number)

    def greet(self) -> dict[str, Any]:
        """Shake hands."""
        answer = self.ask("hello", "initialize", **HELLO)
        self.say(method="notifications/initialized")
        return answer["result"]

    def hang_up(self) -> int:
        """Say nothing more, and hear the rest. Its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.ended()

    def ended(self) -> int:
        """Its exit code, once it ends by itself."""
        code = self.process.wait(PATIENCE)
        self._reader.join()
        while line := self._lines.get():
            self.heard.append(json.loads(line))
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()


@contextmanager
def talk(paddock: Paddock, *options: str) -> Generator[Talk, None, None]:
    """A talk with `paddock mcp` for as long as the block runs."""
    program, arguments, environment = command(paddock)
    with subprocess.Popen(
        [program, *arguments, *options],
        env=environment,
        cwd=paddock.home.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        talking = Talk(process)
        try:
            yield talking
        finally:
            talking.close()
