"""Artifacts: large binary content, sent beside the messages and stored by the host under a URI.

    uri = await host.artifacts.put(Path("/tmp/report.pdf"), "application/pdf")     in async code
    content = host.artifacts.get(uri).wait()                                       elsewhere

    for chunk in host.artifacts.open(uri):         one chunk at a time; `async for` in async code
        …

`put` accepts bytes, a path, or an open binary file. Where the process has no artifact pipes (in a test, or in the
forked process of an agent's call) the bytes travel inside the messages, and an artifact may have at most 1 MiB.
"""

from __future__ import annotations

import binascii
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar, cast

from paddock_sdk.answer import Answer
from paddock_sdk.call import JsonObject
from paddock_sdk.coroutine_runner import run
from paddock_sdk.faults import PluginFault
from paddock_sdk.pipes import Pipes, open_pipes
from paddock_sdk.service import Service

T = TypeVar("T")

CHUNK_BYTES = 1 << 20  # chunk size of `open`
MAX_INLINE_BYTES = 1 << 20
SMALL_BYTES = 32 * 1024  # up to this size, a message is faster than the pipes
DEFAULT_MEDIA_TYPE = "application/octet-stream"

Content: TypeAlias = "bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO"


class _BlockingMode:
    """How a transfer waits: `wait_answer` for a response, `run_io` for bytes."""

    async def wait_answer(self, answer: Answer[Any]) -> Any:
        return answer.wait()

    async def run_io(self, work: Callable[[], T]) -> T:
        return work()


class _AsyncMode(_BlockingMode):
    async def wait_answer(self, answer: Answer[Any]) -> Any:
        return await answer

    async def run_io(self, work: Callable[[], T]) -> T:
        asyncio: Any = sys.modules.get("asyncio")
        if asyncio is None or asyncio._get_running_loop() is None:
            return work()  # no event loop that could do other work meanwhile
        return await cast("Awaitable[T]", asyncio.to_thread(work))


class Transfer(Generic[T]):
    """A transfer that starts when it is awaited, or when `wait()` is called."""

    def __init__(self, start: Callable[[_BlockingMode], Coroutine[Any, Any, T]]) -> None:
        self._start = start

    def __await__(self) -> Generator[Any, None, T]:
        return self._start(_AsyncMode()).__await__()

    def wait(self) -> T:
        """Run the transfer and return its result; blocks until it is complete.

        Raises:
            HostRefused: the host refused.
            PluginFault: bytes were lost on the way.
        """
        return run(self._start(_BlockingMode()))


class ArtifactReader:
    """Iterates over the content of an artifact, one chunk at a time."""

    def __init__(self, artifacts: Artifacts, uri: str) -> None:
        self._artifacts = artifacts
        self._uri = uri

    def __iter__(self) -> Iterator[bytes]:
        offset, total = 0, 1
        while offset < total:
            chunk, total = self._read_chunk(offset).wait()
            offset += len(chunk)
            if chunk:
                yield chunk

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        offset, total = 0, 1
        while offset < total:
            chunk, total = await self._read_chunk(offset)
            offset += len(chunk)
            if chunk:
                yield chunk

    def _read_chunk(self, offset: int) -> Transfer[tuple[bytes, int]]:
        return Transfer(lambda mode: self._artifacts.read_part(mode, self._uri, offset, CHUNK_BYTES))


class Artifacts(Service):
    """The `host.artifacts` service: the plugin's own artifacts, and those passed to it."""

    def put(self, content: Content, media_type: str = DEFAULT_MEDIA_TYPE) -> Transfer[str]:
        """Store content; returns its URI."""
        return Transfer(lambda mode: self._put(mode, content, media_type))

    def get(self, uri: str, offset: int = 0, length: int | None = None) -> Transfer[bytes]:
        """Return the content, or a part of it."""
        return Transfer(lambda mode: self._get(mode, uri, offset, length))

    def open(self, uri: str) -> ArtifactReader:
        """Read the content one chunk at a time, if it is too large for memory."""
        return ArtifactReader(self, uri)

    def delete(self, uri: str) -> Answer[bool]:
        """Delete an artifact; returns whether the plugin owned it."""
        return self.ask("delete", {"uri": uri}, lambda answer: answer["deleted"])

    async def _put(self, mode: _BlockingMode, content: Content, media_type: str) -> str:
        source, size, owned = _open_content(content)
        try:
            pipes = open_pipes()
            if size <= SMALL_BYTES or (pipes is None and size <= MAX_INLINE_BYTES):
                encoded = _encode_base64(await mode.run_io(lambda: _read_exactly(source, size)))
                return (await mode.wait_answer(self.ask("put", {"base64": encoded, "media_type": media_type})))["uri"]
            if pipes is None:
                raise PluginFault(f"this process has no pipes for artifacts, and {size} bytes fit in no message")
            upload = await mode.wait_answer(self.ask("put", {"size": size, "media_type": media_type}))
            stream: int = upload["stream"]
            await mode.run_io(lambda: pipes.send(stream, source, size))
            return (await mode.wait_answer(self.ask("commit", {"stream": stream})))["uri"]
        finally:
            if owned:
                source.close()

    async def _get(self, mode: _BlockingMode, uri: str, offset: int, length: int | None) -> bytes:
        pipes = open_pipes()
        if pipes is not None:
            return (await self.read_part(mode, uri, offset, length))[0]
        # Content too large for one message comes in several.
        parts: list[bytes] = []
        received, remaining = 0, MAX_INLINE_BYTES
        while remaining > 0:
            part, total = await self.read_part(mode, uri, offset + received, remaining)
            parts.append(part)
            received += len(part)
            end = total if length is None else min(total, offset + length)
            remaining = min(MAX_INLINE_BYTES, end - offset - received) if part else 0
        return b"".join(parts)[:length]

    async def read_part(self, mode: _BlockingMode, uri: str, offset: int, length: int | None) -> tuple[bytes, int]:
        """Return some bytes of an artifact, and its total size."""
        pipes = open_pipes()
        params: JsonObject = {"uri": uri, "offset": offset, **({} if length is None else {"length": length})}
        if pipes is None or (length is not None and length <= SMALL_BYTES):
            answer = await mode.wait_answer(self.ask("get", params | {"inline": True}))
            return binascii.a2b_base64(answer["base64"]), answer["total_size"]
        return await self._receive(mode, pipes, await mode.wait_answer(self.ask("get", params)))

    async def _receive(self, mode: _BlockingMode, pipes: Pipes, answer: JsonObject) -> tuple[bytes, int]:
        stream, size = answer["stream"], answer["size"]
        content = await mode.run_io(lambda: pipes.receive(stream))
        if len(content) != size:
            raise PluginFault(f"of an artifact {len(content)} bytes came, and {size} were announced")
        return content, answer["total_size"]


def _open_content(content: Content) -> tuple[BinaryIO, int, bool]:
    """Return a file to read from, the number of bytes in it, and whether to close it afterwards."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        import io

        return io.BytesIO(content), len(content), True
    if isinstance(content, (str, os.PathLike)):
        source = open(content, "rb")  # noqa: PTH123, SIM115 closed by the caller
        return source, os.fstat(source.fileno()).st_size, True
    start = content.tell()
    size = content.seek(0, os.SEEK_END) - start
    content.seek(start)
    return content, size, False


def _encode_base64(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode()


def _read_exactly(source: BinaryIO, size: int) -> bytes:
    content = source.read(size)
    if len(content) != size:
        raise PluginFault("the file became shorter while it was read")
    return content
