"""The artifacts family: big bytes kept under the hash of what they are, for the plugin that made them and for whoever
is handed their address.

artifacts.put {size, media_type, sha256?}  → {stream}; the bytes follow on the plugin's own pipe, see `pipes/frames.py`
artifacts.commit {stream}                  → {uri, size, sha256, media_type}, once all of them are kept
artifacts.put {base64, media_type}         → the same at once, for what is small
artifacts.get {uri, offset?, length?}      → {stream, size, total_size, is_partial, …}; the bytes follow on the pipe
artifacts.get {uri, …, inline: true}       → the same with {base64} in place of the stream
artifacts.delete {uri}                     → {deleted}

A plugin reads what is its own, and what the payload of the call that it works on names: whoever made the call handed
that over. An address cannot be guessed, since it is a hash, but it may be overheard: a plugin that found one in some
log reads nothing by it.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.capabilities.artifacts import request_params
from paddock.capabilities.artifacts.address import artifact_address, is_digest, parse_address
from paddock.capabilities.artifacts.files import ArtifactFiles, PendingFile
from paddock.capabilities.artifacts.request_params import MAX_INLINE_BYTES
from paddock.capabilities.artifacts.rows import (
    ArtifactLimits,
    StoredArtifact,
    check_quota,
    delete_all_artifacts,
    delete_artifact,
    find_artifact,
    find_own_artifact,
    find_unreferenced,
    insert_artifact,
    stored_totals,
)
from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import invalid_param
from paddock.capabilities.pipes.channel import CHUNK_BYTES, PipeChannel
from paddock.capabilities.pipes.incoming_transfer import IncomingTransfer
from paddock.capabilities.request import CapabilityRequest
from paddock.capabilities.thread_pool import ThreadPool
from paddock.core.clock import Clock
from paddock.core.errors import CallerError, NotFound
from paddock.core.events.contracts import PluginArtifactCreated
from paddock.core.events.event import EventSink
from paddock.core.ids import Tenant
from paddock.store.database import Database, Transaction


class FileSender:
    """A part of a file that is sent, piece by piece. Closes it."""

    def __init__(self, workers: ThreadPool, descriptor: int, offset: int, length: int) -> None:
        self._workers = workers
        self._descriptor = descriptor
        self._offset = offset
        self._left = length
        self._reading: asyncio.Future[bytes] | None = None

    async def next_chunk(self) -> bytes:
        wanted = min(self._left, CHUNK_BYTES)
        if not wanted:
            return b""
        self._reading = self._workers.run(lambda: os.pread(self._descriptor, wanted, self._offset))
        piece = await self._reading
        self._offset += len(piece)
        # A file that is shorter than it was ends early, and the plugin sees that bytes are missing.
        self._left = self._left - len(piece) if piece else 0
        return piece

    def close(self) -> None:
        # On a thread and so behind a read that nobody waits for any more.
        self._workers.run(lambda: os.close(self._descriptor))


_MAX_THREADS = 4


@dataclass(frozen=True, slots=True)
class _PendingUpload:
    """What a plugin said of a transfer before it began; its bytes count from then on."""

    owner: tuple[str, str]
    size: int
    draft: PendingFile
    media_type: str
    expected: str | None


class ArtifactService:
    """Every plugin's artifacts. Opened by `open_artifacts`; expects one event loop."""

    def __init__(
        self,
        shelf: ArtifactFiles,
        database: Database,
        *,
        publish_for: Callable[[Tenant], EventSink],
        clock: Clock,
        limits: ArtifactLimits | None = None,
    ) -> None:
        self._files = shelf
        self._database = database
        self._publish_for = publish_for
        self._clock = clock
        self._limits = limits or ArtifactLimits()
        self._workers = ThreadPool(_MAX_THREADS)
        self._pending_uploads: dict[IncomingTransfer, _PendingUpload] = {}
        self._committing: set[IncomingTransfer] = set()
        # Between the bytes and the row that names them nobody may find that no row does, and delete them.
        self._changing = asyncio.Lock()
        self._active: set[asyncio.Task[Any]] = set()

    def handlers(self) -> dict[str, ServiceHandler]:
        return {
            "artifacts.put": self.put,
            "artifacts.commit": self.commit,
            "artifacts.get": self.get,
            "artifacts.delete": self.delete,
        }

    # --- in -----------------------------------------------------------------------------------------------------------

    async def put(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a transfer, or keep what came along.

        Raises:
            CallerError: `artifacts.too_large`, `artifacts.full`, or a parameter is not acceptable.
            Busy: too many transfers are under way.
        """
        media_type, expected = request_params.read_media_type(params), request_params.read_expected_digest(params)
        if "base64" in params:
            return await self._put_inline(asking, params["base64"], media_type, expected)
        size = request_params.read_count(params, "size")
        if size is None:
            raise invalid_param("size", "is missing", "say how many bytes will come, or send few of them as base64")
        channel = _require_channel(asking)
        await self._require_room(asking, size)
        draft = await self._workers.run(self._files.create_pending)
        owner = (asking.tenant, asking.plugin)

        def released() -> None:
            del self._pending_uploads[arrival]
            self._workers.run(draft.discard)

        arrival = IncomingTransfer(size, draft.write, self._workers.run, released)
        self._pending_uploads[arrival] = _PendingUpload(owner, size, draft, media_type, expected)
        try:
            return {"stream": channel.expect(arrival)}
        except BaseException:
            arrival.release()
            raise

    async def commit(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keep what came, once its end is there.

        Raises:
            CallerError: it is not what was announced, or there is no such transfer.
        """
        stream = request_params.read_count(params, "stream")
        channel = _require_channel(asking)
        arrival = channel.find_transfer(-1 if stream is None else stream)
        if arrival in self._committing:
            raise CallerError("this transfer is being committed already", code="artifacts.unknown_stream")
        self._committing.add(arrival)
        try:
            await arrival.wait_complete()
            announced = self._pending_uploads[arrival]
            kept = self._keep(asking, announced.draft, announced.media_type, announced.expected)
            return await self._run_shielded(kept)
        finally:
            self._committing.discard(arrival)
            channel.forget_transfer(stream or 0)

    async def _put_inline(
        self, asking: CapabilityRequest, written: Any, media_type: str, expected: str | None
    ) -> dict[str, Any]:
        content = request_params.decode_base64(written)
        await self._require_room(asking, len(content))
        draft = await self._workers.run(self._files.create_pending)
        try:
            await self._workers.run(lambda: draft.write(content))
            return await self._run_shielded(self._keep(asking, draft, media_type, expected))
        finally:
            self._workers.run(draft.discard)

    async def _require_room(self, asking: CapabilityRequest, size: int) -> None:
        if size > self._limits.one:
            raise CallerError(
                f"an artifact may have {self._limits.one >> 20} MiB, and this one has {size} bytes",
                code="artifacts.too_large",
                hint="make it smaller, or several of it",
                details={"limit_bytes": self._limits.one},
            )
        kept, count = await self._database.read(lambda tx: stored_totals(tx, asking.tenant, asking.plugin))
        owner = (asking.tenant, asking.plugin)
        announced = sum(one.size for one in self._pending_uploads.values() if one.owner == owner)
        check_quota(asking.plugin, kept + announced + size, count + 1, self._limits)

    async def _keep(
        self, asking: CapabilityRequest, draft: PendingFile, media_type: str, expected: str | None
    ) -> dict[str, Any]:
        await self._workers.run(draft.finish)
        if expected is not None and draft.digest != expected:
            raise CallerError(
                "the bytes that came have another hash than was announced",
                code="artifacts.hash_mismatch",
                hint="send them again",
                details={"announced": expected, "actual": draft.digest},
            )
        tenant, plugin = asking.tenant, asking.plugin
        artifact = StoredArtifact(draft.digest, media_type, draft.size, self._clock.now().isoformat())
        async with self._changing:
            await self._workers.run(lambda: self._files.commit(draft, tenant))
            try:
                new = await self._database.write(lambda tx: insert_artifact(tx, tenant, plugin, artifact, self._limits))
            except BaseException:
                await self._delete_unreferenced(tenant, artifact.digest)
                raise
        uri = artifact_address(artifact.digest)
        if new:
            created = PluginArtifactCreated(
                plugin_id=plugin, artifact_uri=uri, artifact_type=media_type, size_bytes=artifact.size
            )
            self._publish_for(tenant).publish(created)
        return {"uri": uri, "size": artifact.size, "sha256": artifact.digest, "media_type": media_type}

    # --- out ----------------------------------------------------------------------------------------------------------

    async def get(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin to send an artifact or a part of it, or give a small part at once.

        Raises:
            NotFound: there is none that this plugin may read.
            CallerError: the part is not in it.
            Busy: too many transfers are under way.
        """
        digest = parse_address(params.get("uri"))
        inline = params.get("inline", False)
        if not isinstance(inline, bool):
            raise invalid_param("inline", "must be true or false")
        channel = None if inline else _require_channel(asking)
        artifact = await self._database.read(lambda tx: _find_readable(tx, asking, digest))
        if artifact is None:
            raise NotFound(
                "there is no such artifact, or it is not this plugin's to read",
                code="artifacts.unknown",
                hint="a plugin reads its own, and those whose address is in the payload of its call",
            )
        offset, length = request_params.read_range(
            params, artifact.size, MAX_INLINE_BYTES if channel is None else artifact.size
        )
        descriptor = await self._workers.run(lambda: self._files.open(asking.tenant, digest))
        about: dict[str, Any] = {
            "size": length,
            "total_size": artifact.size,
            "is_partial": length < artifact.size,
            "media_type": artifact.media_type,
            "sha256": digest,
        }
        if channel is None:
            try:
                content = await self._workers.run(lambda: os.pread(descriptor, length, offset))
            finally:
                os.close(descriptor)
            return about | {"base64": base64.b64encode(content).decode()}
        try:
            sending = FileSender(self._workers, descriptor, offset, length)
            return about | {"stream": channel.send(sending.next_chunk, sending.close)}
        except BaseException:
            os.close(descriptor)
            raise

    async def delete(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Let go of an artifact; tells whether the plugin had it. Others that keep the same bytes keep them."""
        digest = parse_address(params.get("uri"))
        return await self._run_shielded(self._delete(asking, digest))

    async def _delete(self, asking: CapabilityRequest, digest: str) -> dict[str, Any]:
        async with self._changing:
            had = await self._database.write(lambda tx: delete_artifact(tx, asking.tenant, asking.plugin, digest))
            await self._delete_unreferenced(asking.tenant, digest)
        return {"deleted": had}

    async def _delete_unreferenced(self, tenant: str, digest: str) -> None:
        gone = await self._database.read(lambda tx: find_unreferenced(tx, [(tenant, digest)]))
        await self._workers.run(lambda: self._files.delete(gone))

    # --- for the host -------------------------------------------------------------------------------------------------

    async def forget(self, plugin: str) -> None:
        """Let go of all that one plugin keeps, for any tenant; what others keep as well stays. For uninstalling."""
        await self._run_shielded(self._forget(plugin))

    async def _forget(self, plugin: str) -> None:
        async with self._changing:
            nobodys = await self._database.write(lambda tx: delete_all_artifacts(tx, plugin))
            await self._workers.run(lambda: self._files.delete(nobodys))

    async def kept(self, tenant: Tenant, digest: str) -> StoredArtifact:
        """The artifact of this hash, whichever plugin keeps it. For people, who may see what their plugins made.

        Raises:
            NotFound: nobody keeps one.
        """
        found = await self._database.read(lambda tx: find_artifact(tx, tenant, digest)) if is_digest(digest) else None
        if found is None:
            raise NotFound("there is no such artifact", code="artifacts.unknown")
        return found

    async def read_chunks(self, tenant: Tenant, digest: str, offset: int, length: int) -> AsyncGenerator[bytes, None]:
        """A part of its bytes, a piece at a time.

        Raises:
            NotFound: they are gone.
        """
        descriptor = await self._workers.run(lambda: self._files.open(tenant, digest))
        sending = FileSender(self._workers, descriptor, offset, length)
        try:
            while piece := await sending.next_chunk():
                yield piece
        finally:
            sending.close()

    async def _run_shielded(self, work: Any) -> Any:
        """The work's result. It is brought to its end even when whoever asked goes away meanwhile."""
        task = asyncio.get_running_loop().create_task(work)
        self._active.add(task)
        task.add_done_callback(self._active.discard)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Finish what was begun."""
        while self._active:
            await asyncio.wait(self._active)
        self._workers.close()


@asynccontextmanager
async def open_artifacts(
    directory: Path,
    database: Database,
    *,
    publish_for: Callable[[Tenant], EventSink],
    clock: Clock,
    limits: ArtifactLimits | None = None,
) -> AsyncGenerator[ArtifactService, None]:
    """Artifacts whose bytes lie below a directory, for as long as the block runs."""
    shelf = ArtifactFiles(directory)
    artifacts = ArtifactService(shelf, database, publish_for=publish_for, clock=clock, limits=limits)
    try:
        await asyncio.to_thread(shelf.delete_old_pending)
        yield artifacts
    finally:
        await asyncio.shield(artifacts.aclose())


def _find_readable(tx: Transaction, asking: CapabilityRequest, digest: str) -> StoredArtifact | None:
    own = find_own_artifact(tx, asking.tenant, asking.plugin, digest)
    if own is None and digest in asking.artifact_digests:
        return find_artifact(tx, asking.tenant, digest)
    return own


def _require_channel(asking: CapabilityRequest) -> PipeChannel:
    if asking.channel is None:
        raise CallerError(
            "this plugin has no pipe for artifacts",
            code="artifacts.no_channel",
            hint=f"send and get up to {MAX_INLINE_BYTES >> 20} MiB in the message: base64, and inline: true",
        )
    return asking.channel
