"""Big bytes, which travel beside the messages and are kept by the host under an address.

    uri = await host.artifacts.put(Path("/tmp/report.pdf"), "application/pdf")     in async code
    content = host.artifacts.get(uri).wait()                                       in any other

    for chunk in host.artifacts.open(uri):         a piece at a time; `async for` in async code
        …

What is put is bytes, a path, or an open binary file. Where the process has no pipes for it (in a test, or in the fork
that an agent's call runs in) bytes travel in the messages themselves, and then one artifact may have 1 MiB.
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

CHUNK_BYTES = 1 << 20  # what `open` gives at a time
MAX_INLINE_BYTES = 1 << 20
SMALL_BYTES = 32 * 1024  # in a message it is there sooner
DEFAULT_MEDIA_TYPE = "application/octet-stream"

Content: TypeAlias = "bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO"


class _BlockingMode:
    """How a transfer waits: `settle` for an answer, `move` for bytes."""

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
            return work()  # nothing else could be done meanwhile
        return await cast("Awaitable[T]", asyncio.to_thread(work))


class Transfer(Generic[T]):
    """Something on its way: `await` it, or `wait()` for it. Begins then."""

    def __init__(self, begin: Callable[[_BlockingMode], Coroutine[Any, Any, T]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, None, T]:
        return self._begin(_AsyncMode()).__await__()

    def wait(self) -> T:
        """The result; blocks until it is there.

        Raises:
            HostRefused: the host refused.
            PluginFault: bytes got lost on the way.
        """
        return run(self._begin(_BlockingMode()))


class ArtifactReader:
    """An artifact that is read a piece at a time."""

    def __init__(self, artifacts: Artifacts, uri: str) -> None:
        self._artifacts = artifacts
        self._uri = uri

    def __iter__(self) -> Iterator[bytes]:
        offset, total = 0, 1
        while offset < total:
            piece, total = self._read_chunk(offset).wait()
            offset += len(piece)
            if piece:
                yield piece

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        offset, total = 0, 1
        while offset < total:
            piece, total = await self._read_chunk(offset)
            offset += len(piece)
            if piece:
                yield piece

    def _read_chunk(self, offset: int) -> Transfer[tuple[bytes, int]]:
        return Transfer(lambda way: self._artifacts.read_part(way, self._uri, offset, CHUNK_BYTES))


class Artifacts(Service):
    """What the plugin keeps, and what it was handed."""

    def put(self, content: Content, media_type: str = DEFAULT_MEDIA_TYPE) -> Transfer[str]:
        """Keep something; gives its address."""
        return Transfer(lambda way: self._put(way, content, media_type))

    def get(self, uri: str, offset: int = 0, length: int | None = None) -> Transfer[bytes]:
        """The whole, or a part of it."""
        return Transfer(lambda way: self._get(way, uri, offset, length))

    def open(self, uri: str) -> ArtifactReader:
        """Read it a piece at a time, for what is too big to be held at once."""
        return ArtifactReader(self, uri)

    def delete(self, uri: str) -> Answer[bool]:
        """Keep it no longer; tells whether it was the plugin's."""
        return self.ask("delete", {"uri": uri}, lambda answer: answer["deleted"])

    async def _put(self, way: _BlockingMode, content: Content, media_type: str) -> str:
        source, size, ours = _open_content(content)
        try:
            pipes = open_pipes()
            if size <= SMALL_BYTES or (pipes is None and size <= MAX_INLINE_BYTES):
                written = _encode_base64(await way.run_io(lambda: _read_exactly(source, size)))
                return (await way.wait_answer(self.ask("put", {"base64": written, "media_type": media_type})))["uri"]
            if pipes is None:
                raise PluginFault(f"this process has no pipes for artifacts, and {size} bytes fit in no message")
            begun = await way.wait_answer(self.ask("put", {"size": size, "media_type": media_type}))
            stream: int = begun["stream"]
            await way.run_io(lambda: pipes.send(stream, source, size))
            return (await way.wait_answer(self.ask("commit", {"stream": stream})))["uri"]
        finally:
            if ours:
                source.close()

    async def _get(self, way: _BlockingMode, uri: str, offset: int, length: int | None) -> bytes:
        pipes = open_pipes()
        if pipes is not None:
            return (await self.read_part(way, uri, offset, length))[0]
        # What fits in no message comes in several.
        pieces: list[bytes] = []
        got, wanted = 0, MAX_INLINE_BYTES
        while wanted > 0:
            piece, total = await self.read_part(way, uri, offset + got, wanted)
            pieces.append(piece)
            got += len(piece)
            end = total if length is None else min(total, offset + length)
            wanted = min(MAX_INLINE_BYTES, end - offset - got) if piece else 0
        return b"".join(pieces)[:length]

    async def read_part(self, way: _BlockingMode, uri: str, offset: int, length: int | None) -> tuple[bytes, int]:
        """Some bytes of an artifact, and how many it has in all."""
        pipes = open_pipes()
        asked: JsonObject = {"uri": uri, "offset": offset, **({} if length is None else {"length": length})}
        if pipes is None or (length is not None and length <= SMALL_BYTES):
            answer = await way.wait_answer(self.ask("get", asked | {"inline": True}))
            return binascii.a2b_base64(answer["base64"]), answer["total_size"]
        return await self._receive(way, pipes, await way.wait_answer(self.ask("get", asked)))

    async def _receive(self, way: _BlockingMode, pipes: Pipes, answer: JsonObject) -> tuple[bytes, int]:
        stream, size = answer["stream"], answer["size"]
        content = await way.run_io(lambda: pipes.receive(stream))
        if len(content) != size:
            raise PluginFault(f"of an artifact {len(content)} bytes came, and {size} were announced")
        return content, answer["total_size"]


def _open_content(content: Content) -> tuple[BinaryIO, int, bool]:
    """A file to read it from, how many bytes that will give, and whether the file is ours to close."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        import io

        return io.BytesIO(content), len(content), True
    if isinstance(content, (str, os.PathLike)):
        source = open(content, "rb")  # noqa: PTH123, SIM115 closed by whoever sends it
        return source, os.fstat(source.fileno()).st_size, True
    begin = content.tell()
    size = content.seek(0, os.SEEK_END) - begin
    content.seek(begin)
    return content, size, False


def _encode_base64(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode()


def _read_exactly(source: BinaryIO, size: int) -> bytes:
    content = source.read(size)
    if len(content) != size:
        raise PluginFault("the file became shorter while it was read")
    return content
