"""The artifacts service: big content stored under its hash, for its owner and for plugins that are given its address.

artifacts.put {size, media_type, sha256?}  → {stream}; the bytes follow on the plugin's own pipe, see `pipes/frames.py`
artifacts.commit {stream}                  → {uri, size, sha256, media_type}, once all of them are stored
artifacts.put {base64, media_type}         → the same at once, for small content
artifacts.get {uri, offset?, length?}      → {stream, size, total_size, is_partial, …}; the bytes follow on the pipe
artifacts.get {uri, …, inline: true}       → the same with {base64} in place of the stream
artifacts.delete {uri}                     → {deleted}

Knowing an address grants no access: it may leak, and the hash of short content can be guessed. A person or program
reads what was handed to them in an answer, other than what they had named themselves, and what a callable made that
they may call without asking. A plugin reads its own artifacts, and those that the payload of its call names, if its
caller may read them. Whatever else is stored is reported like what is not.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from paddock.capabilities.artifacts import request_params
from paddock.capabilities.artifacts.access import ArtifactAccess, MayCall
from paddock.capabilities.artifacts.address import artifact_address, parse_address
from paddock.capabilities.artifacts.files import ArtifactFiles, PendingFile
from paddock.capabilities.artifacts.readers import (
    ArtifactMaker,
    forget_readers,
    forget_readers_of_plugin,
    record_maker,
)
from paddock.capabilities.artifacts.request_params import MAX_INLINE_BYTES
from paddock.capabilities.artifacts.rows import (
    ArtifactLimits,
    StoredArtifact,
    check_quota,
    delete_all_artifacts,
    delete_artifact,
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
    """Sends a part of a file, chunk by chunk, and closes it."""

    def __init__(self, workers: ThreadPool, descriptor: int, offset: int, length: int) -> None:
        self._workers = workers
        self._descriptor = descriptor
        self._offset = offset
        self._remaining = length
        self._reading: asyncio.Future[bytes] | None = None

    async def next_chunk(self) -> bytes:
        length = min(self._remaining, CHUNK_BYTES)
        if not length:
            return b""
        self._reading = self._workers.run(lambda: os.pread(self._descriptor, length, self._offset))
        chunk = await self._reading
        self._offset += len(chunk)
        # A truncated file ends early, and the plugin sees that bytes are missing.
        self._remaining = self._remaining - len(chunk) if chunk else 0
        return chunk

    def close(self) -> None:
        # On a thread, so that it runs after a read whose caller was cancelled.
        self._workers.run(lambda: os.close(self._descriptor))


_MAX_THREADS = 4


class _PendingUpload(Struct, frozen=True):
    """An announced transfer; its size counts towards the quota from the start."""

    owner: tuple[str, str]
    size: int
    draft: PendingFile
    media_type: str
    expected: str | None


class ArtifactService:
    """All plugins' artifacts. Opened by `open_artifacts`; expects one event loop."""

    def __init__(
        self,
        files: ArtifactFiles,
        database: Database,
        *,
        access: ArtifactAccess,
        publish_for: Callable[[Tenant], EventSink],
        clock: Clock,
        limits: ArtifactLimits | None = None,
    ) -> None:
        self.access = access
        self._files = files
        self._database = database
        self._publish_for = publish_for
        self._clock = clock
        self._limits = limits or ArtifactLimits()
        self._workers = ThreadPool(_MAX_THREADS)
        self._pending_uploads: dict[IncomingTransfer, _PendingUpload] = {}
        self._committing: set[IncomingTransfer] = set()
        # Between storing bytes and inserting their row, a concurrent delete must not see them as unreferenced.
        self._change_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    def handlers(self) -> dict[str, ServiceHandler]:
        return {
            "artifacts.put": self.put,
            "artifacts.commit": self.commit,
            "artifacts.get": self.get,
            "artifacts.delete": self.delete,
        }

    # --- uploads ------------------------------------------------------------------------------------------------------

    async def put(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a transfer, or store inline content.

        Raises:
            CallerError: `artifacts.too_large`, `artifacts.full`, or a parameter is invalid.
            Busy: too many transfers are in progress.
        """
        media_type, expected = request_params.read_media_type(params), request_params.read_expected_digest(params)
        if "base64" in params:
            return await self._put_inline(request, params["base64"], media_type, expected)
        size = request_params.read_count(params, "size")
        if size is None:
            raise invalid_param("size", "is missing", "say how many bytes will come, or send few of them as base64")
        channel = _require_channel(request)
        await self._require_room(request, size)
        draft = await self._workers.run(self._files.create_pending)
        owner = (request.tenant, request.plugin)

        def released() -> None:
            del self._pending_uploads[transfer]
            self._workers.run(draft.discard)

        try:
            transfer = channel.expect(size, draft.write, self._workers.run, released)
        except BaseException:
            self._workers.run(draft.discard)
            raise
        self._pending_uploads[transfer] = _PendingUpload(owner, size, draft, media_type, expected)
        return {"stream": transfer.stream}

    async def commit(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Store a transfer's content once its end has arrived.

        Raises:
            CallerError: it does not match the announcement, or there is no such transfer.
        """
        stream = request_params.read_count(params, "stream")
        channel = _require_channel(request)
        transfer = channel.find_transfer(-1 if stream is None else stream)
        if transfer in self._committing:
            raise CallerError("this transfer is being committed already", code="artifacts.unknown_stream")
        self._committing.add(transfer)
        try:
            await transfer.wait_complete()
            upload = self._pending_uploads[transfer]
            store = self._store(request, upload.draft, upload.media_type, upload.expected)
            return await self._run_shielded(store)
        finally:
            self._committing.discard(transfer)
            channel.forget_transfer(stream or 0)

    async def _put_inline(
        self, request: CapabilityRequest, encoded: Any, media_type: str, expected: str | None
    ) -> dict[str, Any]:
        content = request_params.decode_base64(encoded)
        await self._require_room(request, len(content))
        draft = await self._workers.run(self._files.create_pending)
        try:
            await self._workers.run(lambda: draft.write(content))
            return await self._run_shielded(self._store(request, draft, media_type, expected))
        finally:
            self._workers.run(draft.discard)

    async def _require_room(self, request: CapabilityRequest, size: int) -> None:
        if size > self._limits.artifact_bytes:
            raise CallerError(
                f"an artifact may have {self._limits.artifact_bytes >> 20} MiB, and this one has {size} bytes",
                code="artifacts.too_large",
                hint="make it smaller, or several of it",
                details={"limit_bytes": self._limits.artifact_bytes},
            )
        stored, count = await self._database.read(lambda tx: stored_totals(tx, request.tenant, request.plugin))
        owner = (request.tenant, request.plugin)
        announced = sum(upload.size for upload in self._pending_uploads.values() if upload.owner == owner)
        check_quota(request.plugin, stored + announced + size, count + 1, self._limits)

    async def _store(
        self, request: CapabilityRequest, draft: PendingFile, media_type: str, expected: str | None
    ) -> dict[str, Any]:
        await self._workers.run(draft.finish)
        if expected is not None and draft.digest != expected:
            raise CallerError(
                "the bytes that came have another hash than was announced",
                code="artifacts.hash_mismatch",
                hint="send them again",
                details={"announced": expected, "actual": draft.digest},
            )
        tenant, plugin = request.tenant, request.plugin
        artifact = StoredArtifact(draft.digest, media_type, draft.size, self._clock.now().isoformat())
        async with self._change_lock:
            await self._workers.run(lambda: self._files.commit(draft, tenant))
            try:
                new = await self._database.write(lambda tx: self._insert(tx, request, artifact))
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

    def _insert(self, tx: Transaction, request: CapabilityRequest, artifact: StoredArtifact) -> bool:
        new = insert_artifact(tx, request.tenant, request.plugin, artifact, self._limits)
        if request.callable:
            record_maker(tx, request.tenant, artifact.digest, ArtifactMaker(request.plugin, request.callable))
        return new

    # --- downloads ----------------------------------------------------------------------------------------------------

    async def get(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin to send an artifact or a part of it, or return a small part inline.

        Raises:
            NotFound: there is none that this plugin may read.
            CallerError: the part is out of range.
            Busy: too many transfers are in progress.
        """
        digest = parse_address(params.get("uri"))
        inline = params.get("inline", False)
        if not isinstance(inline, bool):
            raise invalid_param("inline", "must be true or false")
        channel = None if inline else _require_channel(request)
        call = request.call if digest in request.artifact_digests else None
        try:
            artifact = await self.access.find_for_plugin(request.tenant, request.plugin, call, digest)
        except NotFound:
            raise NotFound(
                "there is no such artifact, or it is not this plugin's to read",
                code="artifacts.unknown",
                hint="a plugin reads its own, and those in the payload of its call that its caller may read",
            ) from None
        offset, length = request_params.read_range(
            params, artifact.size, MAX_INLINE_BYTES if channel is None else artifact.size
        )
        descriptor = await self._workers.run(lambda: self._files.open(request.tenant, digest))
        metadata: dict[str, Any] = {
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
            return metadata | {"base64": base64.b64encode(content).decode()}
        try:
            sender = FileSender(self._workers, descriptor, offset, length)
            return metadata | {"stream": channel.send(sender.next_chunk, sender.close)}
        except BaseException:
            os.close(descriptor)
            raise

    async def delete(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Delete the plugin's artifact and return whether it had it. Other owners of the same bytes keep them."""
        digest = parse_address(params.get("uri"))
        return await self._run_shielded(self._delete(request, digest))

    async def _delete(self, request: CapabilityRequest, digest: str) -> dict[str, Any]:
        async with self._change_lock:
            deleted = await self._database.write(lambda tx: _delete_with_readers(tx, request, digest))
            await self._delete_unreferenced(request.tenant, digest)
        return {"deleted": deleted}

    async def _delete_unreferenced(self, tenant: str, digest: str) -> None:
        unreferenced = await self._database.read(lambda tx: find_unreferenced(tx, [(tenant, digest)]))
        await self._workers.run(lambda: self._files.delete(unreferenced))

    # --- for the host -------------------------------------------------------------------------------------------------

    async def forget(self, plugin: str) -> None:
        """Delete all artifacts of an uninstalled plugin, for all tenants; those with other owners stay."""
        await self._run_shielded(self._forget(plugin))

    async def _forget(self, plugin: str) -> None:
        async with self._change_lock:
            unreferenced = await self._database.write(lambda tx: _delete_all_with_readers(tx, plugin))
            await self._workers.run(lambda: self._files.delete(unreferenced))

    async def check_size(self, tenant: Tenant, artifact: StoredArtifact) -> None:
        """Check that an artifact's bytes are there, before a response begins; see `ArtifactFiles.check_size`."""
        await self._workers.run(lambda: self._files.check_size(tenant, artifact.digest, artifact.size))

    async def read_chunks(self, tenant: Tenant, digest: str, offset: int, length: int) -> AsyncGenerator[bytes, None]:
        """Yield a part of an artifact's bytes in chunks.

        Raises:
            NotFound: they are gone.
        """
        descriptor = await self._workers.run(lambda: self._files.open(tenant, digest))
        sender = FileSender(self._workers, descriptor, offset, length)
        try:
            while chunk := await sender.next_chunk():
                yield chunk
        finally:
            sender.close()

    async def _run_shielded(self, work: Any) -> Any:
        """Run work to its end even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Wait for running work to finish."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._workers.close()


@asynccontextmanager
async def open_artifacts(
    directory: Path,
    database: Database,
    *,
    may_call: MayCall,
    publish_for: Callable[[Tenant], EventSink],
    clock: Clock,
    limits: ArtifactLimits | None = None,
) -> AsyncGenerator[ArtifactService, None]:
    """Open the artifacts service on a directory for as long as the block runs."""
    files = ArtifactFiles(directory)
    access = ArtifactAccess(database, may_call)
    artifacts = ArtifactService(files, database, access=access, publish_for=publish_for, clock=clock, limits=limits)
    try:
        await asyncio.to_thread(files.delete_old_pending)
        yield artifacts
    finally:
        await asyncio.shield(artifacts.aclose())


def _delete_with_readers(tx: Transaction, request: CapabilityRequest, digest: str) -> bool:
    forget_readers(tx, request.tenant, request.plugin, digest)
    return delete_artifact(tx, request.tenant, request.plugin, digest)


def _delete_all_with_readers(tx: Transaction, plugin: str) -> list[tuple[str, str]]:
    forget_readers_of_plugin(tx, plugin)
    return delete_all_artifacts(tx, plugin)


def _require_channel(request: CapabilityRequest) -> PipeChannel:
    if request.channel is None:
        raise CallerError(
            "this plugin has no pipe for artifacts",
            code="artifacts.no_channel",
            hint=f"send and get up to {MAX_INLINE_BYTES >> 20} MiB in the message: base64, and inline: true",
        )
    return request.channel
