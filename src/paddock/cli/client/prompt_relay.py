"""Prompts that a host in this process needs while it serves a request, such as for the passphrase of the keys.

The host's threads ask; the prompt runs on the thread of the command, the only one that Ctrl-C interrupts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from paddock.core.errors import OperatorError
from paddock.core.secret import Secret


class PendingPrompt(NamedTuple):
    """A prompt whose answer a thread waits for."""

    prompt: Callable[[], Secret]
    answer: Future[Secret]

    def run(self) -> None:
        """Prompt, and hand the answer to the thread. An interrupt ends the wait of that thread too."""
        try:
            self.answer.set_result(self.prompt())
        except BaseException as error:
            self.answer.set_exception(error if isinstance(error, Exception) else _unanswered_error())
            if not isinstance(error, Exception):
                raise


class PromptRelay:
    """Brings prompts from the threads of a host to the thread of the command."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._arrived = asyncio.Event()
        self._pending: deque[PendingPrompt] = deque()
        self._closed = False

    def ask(self, prompt: Callable[[], Secret]) -> Secret:
        """Have the command run a prompt, and return its answer. Blocks; not for the thread of the command.

        Raises:
            OperatorError: the command ended before it was answered.
        """
        pending = PendingPrompt(prompt, Future())
        self._loop.call_soon_threadsafe(self._add, pending)
        return pending.answer.result()

    def _add(self, pending: PendingPrompt) -> None:
        if self._closed:
            pending.answer.set_exception(_unanswered_error())
            return
        self._pending.append(pending)
        self._arrived.set()

    async def wait(self) -> None:
        """Wait until a prompt is pending."""
        await self._arrived.wait()

    def take(self) -> PendingPrompt | None:
        """Return the next pending prompt, if there is one."""
        pending = self._pending.popleft() if self._pending else None
        if not self._pending:
            self._arrived.clear()
        return pending

    def close(self) -> None:
        """Answer no prompt any more, so that no thread waits for one while the host is closed."""
        self._closed = True
        while (pending := self.take()) is not None:
            pending.answer.set_exception(_unanswered_error())


def _unanswered_error() -> OperatorError:
    return OperatorError("nothing was typed, and nothing was changed", code="config.no_value")
