"""A plugin as a plain subprocess on pipes, with the test in the host's place."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30  # seconds; a bound on a hang, never on a speed


class Conversation:
    """What is said to a plugin, and what it says back, line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout
        self.process = process
        self._input = process.stdin
        self._output = process.stdout.fileno()
        self._pending = b""
        self._last_id = 0

    def send_bytes(self, data: bytes) -> None:
        self._input.write(data)
        self._input.flush()

    def send(self, message: Any) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        """The next line, which must be JSON: nothing else may ever stand on stdout."""
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._output], [], [], PATIENCE)
            assert ready, "the plugin said nothing"
            chunk = os.read(self._output, 1 << 20)
            assert chunk, "the plugin closed its stdout"
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)

    def ask(self, method: str, params: Any = None) -> int:
        """Send a request without waiting; gives its id."""
        self._last_id += 1
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": {} if params is None else params})
        return self._last_id

    def tell(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": {} if params is None else params})

    def answer(self, method: str, params: Any = None) -> Any:
        """The whole response to a request."""
        request_id = self.ask(method, params)
        message = self.receive()
        assert message["id"] == request_id and message["jsonrpc"] == "2.0", message
        return message

    def call(self, method: str, params: Any = None) -> Any:
        """The result of a request that must succeed."""
        message = self.answer(method, params)
        assert "error" not in message, message
        return message["result"]

    def error(self, method: str, params: Any = None) -> Any:
        """The error of a request that must fail."""
        message = self.answer(method, params)
        assert "result" not in message, message
        return message["error"]

    def greet(self, plugin_name: str, config: dict[str, Any] | None = None) -> Any:
        """The handshake, as the host does it; gives the plugin's answer."""
        params = {
            "daemon_version": "0.1.0",
            "api_version": 1,
            "plugin_name": plugin_name,
            "storage_available": True,
            "projects": [],
        }
        answer = self.call("initialize", params)
        self.tell("initialized")
        if config is not None:
            self.call("config.update", {"config": config})
        return answer

    def end(self) -> tuple[int, list[Any]]:
        """Close the pipe; gives the exit code and the log lines. Nothing more may stand on stdout."""
        self._input.close()
        return self.ended()

    def ended(self) -> tuple[int, list[Any]]:
        """Wait for a plugin that ends by itself; gives the exit code and the log lines."""
        self.process.wait(PATIENCE)
        assert self.process.stdout and self.process.stderr
        assert self._pending + self.process.stdout.read() == b""
        return self.process.returncode, [json.loads(line) for line in self.process.stderr.read().splitlines()]


@contextmanager
def conversation(
    command: Sequence[str], directory: Path, environment: dict[str, str] | None = None
) -> Generator[Conversation, None, None]:
    """A running plugin for as long as the block runs. `python3` in the command is this interpreter."""
    argv = [sys.executable if part == "python3" else part for part in command]
    process = subprocess.Popen(
        argv,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            **(environment or {}),
        },
    )
    try:
        yield Conversation(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with suppress(BrokenPipeError):  # of what was never read
                if pipe:
                    pipe.close()
