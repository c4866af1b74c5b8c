"""The worker as a plain process, with the test in the host's place."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.sdk.conversation import ROOT, Conversation, conversation

RUN = str(ROOT / "src" / "paddock_sdk" / "worker" / "run.py")

Answers = Callable[[str, dict[str, Any]], Any]


class Refused(Exception):
    """Raised by a test's host to answer with an error."""

    def __init__(self, code: int, message: str = "refused") -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


class Talk:
    """A worker that was greeted. `answers` is the host: it gives the result for each question of the plugin."""

    def __init__(self, wire: Conversation, answers: Answers) -> None:
        self.wire = wire
        self.events: list[Any] = []  # of the last call
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answers = answers

    def describe(self) -> Any:
        return self._result(self.wire.ask("worker.describe"))["callables"]

    def call(self, payload: Any = None, envelope: Any = None, name: str = "it") -> Any:
        """The result of a call that must succeed."""
        return self._result(self.begin(payload, envelope, name))

    def failure(self, payload: Any = None, envelope: Any = None, name: str = "it") -> Any:
        """The error of a call that must fail."""
        message = self.until_answered(self.begin(payload, envelope, name))
        assert "error" in message, message
        return message["error"]

    def begin(self, payload: Any = None, envelope: Any = None, name: str = "it", token: str = "token") -> int:
        params = {"callable": name, "payload": payload or {}, "envelope": envelope or {}, "_call": token}
        return self.wire.ask("worker.call", params)

    def act(self, action: str, args: Any, envelope: Any, name: str = "it") -> Any:
        params = {"callable": name, "action": action, "args": args, "envelope": envelope}
        return self._result(self.wire.ask("worker.action", params))

    def until_answered(self, request_id: int) -> Any:
        """Be the host until this request is answered."""
        self.events = []
        while True:
            said = self.wire.receive()
            if "method" not in said:
                assert said["id"] == request_id, said
                return said
            if "id" in said:
                self.reply(said)
            else:
                assert said["method"] == "paddock.event" and said["params"]["id"] == request_id
                self.events.append(said["params"]["event"])

    def reply(self, question: Any) -> None:
        """Answer a question of the plugin as the host would."""
        self.asked.append((question["method"], question["params"]))
        try:
            answer = {"result": self._answers(question["method"], question["params"])}
        except Refused as refused:
            answer = {"error": refused.error}
        self.wire.send({"jsonrpc": "2.0", "id": question["id"], **answer})

    def _result(self, request_id: int) -> Any:
        message = self.until_answered(request_id)
        assert "error" not in message, message
        return message["result"]


def orders(root: Path, entrypoints: Mapping[str, str], **more: Any) -> str:
    given = {"name": "under-test", "version": "1.0.0", "dialect": "shu", "kind": "plugin", "root": str(root)}
    return json.dumps({**given, "entrypoints": dict(entrypoints), "capabilities": [], **more})


@contextmanager
def process(root: Path, entrypoints: Mapping[str, str], **more: Any) -> Generator[Conversation, None, None]:
    """A worker that nobody has greeted. It is told no path: it finds its own package by itself."""
    environment = {"PADDOCK_WORKER": orders(root, entrypoints, **more), "PYTHONPATH": ""}
    with conversation(["python3", RUN], root, environment) as wire:
        yield wire


@contextmanager
def working(
    root: Path,
    entrypoints: Mapping[str, str],
    answers: Answers = lambda _method, _params: {},
    capabilities: Sequence[str] = (),
    **more: Any,
) -> Generator[Talk, None, None]:
    """A worker that is ready to be called."""
    with process(root, entrypoints, capabilities=list(capabilities), **more) as wire:
        wire.greet("under-test")
        yield Talk(wire, answers)


def write(root: Path, files: Mapping[str, str]) -> Path:
    """A plugin's files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return root


@contextmanager
def shu(root: Path, code: str, answers: Answers = lambda _m, _p: {}, **more: Any) -> Generator[Talk, None, None]:
    """A Shu plugin of one module, whose class is `Plugin`."""
    with working(write(root, {"plug.py": code}), {"it": "plug:Plugin"}, answers, **more) as talk:
        yield talk


@contextmanager
def kernel(
    root: Path, code: str, kind: str, answers: Answers = lambda _m, _p: {}, entry: str = "plug:run", **more: Any
) -> Generator[Talk, None, None]:
    """A Kernel plugin of one module."""
    files = write(root, {"plug.py": code})
    with working(files, {"it": entry}, answers, dialect="kernel", kind=kind, **more) as talk:
        yield talk
