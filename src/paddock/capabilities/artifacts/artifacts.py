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

from paddock.capabilities.artifacts import asked
from paddock.capabilities.artifacts.address import address_of, digest_of, is_digest
from paddock.capabilities.artifacts.asked import MOST_INLINE
from paddock.capabilities.artifacts.rows import (
    Artifact,
    ArtifactLimits,
    any_artifact,
    forget_artifacts,
    keep_artifact,
    kept_by,
    let_go,
    own_artifact,
    require_room,
    unkept,
)
from paddock.capabilities.artifacts.sending import Sending
from paddock.capabilities.artifacts.shelf import Draft, Shelf
from paddock.capabilities.asking import Asking
from paddock.capabilities.door import Handler
from paddock.capabilities.params import wrong
from paddock.capabilities.pipes.arrival import Arrival
from paddock.capabilities.pipes.channel import Channel
from paddock.capabilities.storage.workers import Workers
from paddock.core.clock import Clock
from paddock.core.errors import CallerError, NotFound
from paddock.core.event import Publish
from paddock.core.events_contracts import PluginArtifactCreated
from paddock.core.ids import Tenant
from paddock.store.database import Database, Transaction

_THREADS = 4


@dataclass(frozen=True, slots=True)
class _Announced:
    """What a plugin said of a transfer before it began; its bytes count from then on."""

    owner: tuple[str, str]
    size: int
    draft: Draft
    media_type: str
    expected: str | None


class Artifacts:
    """Every plugin's artifacts. Opened by `open_artifacts`; expects one event loop."""

    def __init__(
        self,
        shelf: Shelf,
        database: Database,
        *,
        publish_for: Callable[[Tenant], Publish],
        clock: Clock,
        limits: ArtifactLimits | None = None,
    ) -> None:
        self._shelf = shelf
        self._database = database
        self._publish_for = publish_for
        self._clock = clock
        self._limits = limits or ArtifactLimits()
        self._workers = Workers(_THREADS)
        self._announced: dict[Arrival, _Announced] = {}
        self._committing: set[Arrival] = set()
        # Between the bytes and the row that names them nobody may find that no row does, and delete them.
        self._changing = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()

    def handlers(self) -> dict[str, Handler]:
        return {
            "artifacts.put": self.put,
            "artifacts.commit": self.commit,
            "artifacts.get": self.get,
            "artifacts.delete": self.delete,
        }

    # --- in -----------------------------------------------------------------------------------------------------------

    async def put(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a transfer, or keep what came along.

        Raises:
            CallerError: `artifacts.too_large`, `artifacts.full`, or a parameter is not acceptable.
            Busy: too many transfers are under way.
        """
        media_type, expected = asked.media_type(params), asked.expected_digest(params)
        if "base64" in params:
            return await self._put_inline(asking, params["base64"], media_type, expected)
        size = asked.count(params, "size")
        if size is None:
            raise wrong("size", "is missing", "say how many bytes will come, or send few of them as base64")
        channel = _channel(asking)
        await self._require_room(asking, size)
        draft = await self._workers.run(self._shelf.begin)
        owner = (asking.tenant, asking.plugin)

        def released() -> None:
            del self._announced[arrival]
            self._workers.run(draft.drop)

        arrival = Arrival(size, draft.write, self._workers.run, released)
        self._announced[arrival] = _Announced(owner, size, draft, media_type, expected)
        try:
            return {"stream": channel.expect(arrival)}
        except BaseException:
            arrival.release()
            raise

    async def commit(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keep what came, once its end is there.

        Raises:
            CallerError: it is not what was announced, or there is no such transfer.
        """
        stream = asked.count(params, "stream")
        channel = _channel(asking)
        arrival = channel.arrival(-1 if stream is None else stream)
        if arrival in self._committing:
            raise CallerError("this transfer is being committed already", code="artifacts.unknown_stream")
        self._committing.add(arrival)
        try:
            await arrival.whole()
            announced = self._announced[arrival]
            kept = self._keep(asking, announced.draft, announced.media_type, announced.expected)
            return await self._finished(kept)
        finally:
            self._committing.discard(arrival)
            channel.over(stream or 0)

    async def _put_inline(self, asking: Asking, written: Any, media_type: str, expected: str | None) -> dict[str, Any]:
        content = asked.decoded(written)
        await self._require_room(asking, len(content))
        draft = await self._workers.run(self._shelf.begin)
        try:
            await self._workers.run(lambda: draft.write(content))
            return await self._finished(self._keep(asking, draft, media_type, expected))
        finally:
            self._workers.run(draft.drop)

    async def _require_room(self, asking: Asking, size: int) -> None:
        if size > self._limits.one:
            raise CallerError(
                f"an artifact may have {self._limits.one >> 20} MiB, and this one has {size} bytes",
                code="artifacts.too_large",
                hint="make it smaller, or several of it",
                details={"limit_bytes": self._limits.one},
            )
        kept, count = await self._database.read(lambda tx: kept_by(tx, asking.tenant, asking.plugin))
        owner = (asking.tenant, asking.plugin)
        announced = sum(one.size for one in self._announced.values() if one.owner == owner)
        require_room(asking.plugin, kept + announced + size, count + 1, self._limits)

    async def _keep(self, asking: Asking, draft: Draft, media_type: str, expected: str | None) -> dict[str, Any]:
        await self._workers.run(draft.finish)
        if expected is not None and draft.digest != expected:
            raise CallerError(
                "the bytes that came have another hash than was announced",
                code="artifacts.hash_mismatch",
                hint="send them again",
                details={"announced": expected, "actual": draft.digest},
            )
        tenant, plugin = asking.tenant, asking.plugin
        artifact = Artifact(draft.digest, media_type, draft.size, self._clock.now().isoformat())
        async with self._changing:
            await self._workers.run(lambda: self._shelf.keep(draft, tenant))
            try:
                new = await self._database.write(lambda tx: keep_artifact(tx, tenant, plugin, artifact, self._limits))
            except BaseException:
                await self._delete_unkept(tenant, artifact.digest)
                raise
        uri = address_of(artifact.digest)
        if new:
            created = PluginArtifactCreated(
                plugin_id=plugin, artifact_uri=uri, artifact_type=media_type, size_bytes=artifact.size
            )
            self._publish_for(tenant).publish(created)
        return {"uri": uri, "size": artifact.size, "sha256": artifact.digest, "media_type": media_type}

    # --- out ----------------------------------------------------------------------------------------------------------

    async def get(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin to send an artifact or a part of it, or give a small part at once.

        Raises:
            NotFound: there is none that this plugin may read.
            CallerError: the part is not in it.
            Busy: too many transfers are under way.
        """
        digest = digest_of(params.get("uri"))
        inline = params.get("inline", False)
        if not isinstance(inline, bool):
            raise wrong("inline", "must be true or false")
        channel = None if inline else _channel(asking)
        artifact = await self._database.read(lambda tx: _readable(tx, asking, digest))
        if artifact is None:
            raise NotFound(
                "there is no such artifact, or it is not this plugin's to read",
                code="artifacts.unknown",
                hint="a plugin reads its own, and those whose address is in the payload of its call",
            )
        offset, length = asked.part(params, artifact.size, MOST_INLINE if channel is None else artifact.size)
        descriptor = await self._workers.run(lambda: self._shelf.open(asking.tenant, digest))
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
            sending = Sending(self._workers, descriptor, offset, length)
            return about | {"stream": channel.send(sending.next_piece, sending.close)}
        except BaseException:
            os.close(descriptor)
            raise

    async def delete(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Let go of an artifact; tells whether the plugin had it. Others that keep the same bytes keep them."""
        digest = digest_of(params.get("uri"))
        return await self._finished(self._delete(asking, digest))

    async def _delete(self, asking: Asking, digest: str) -> dict[str, Any]:
        async with self._changing:
            had = await self._database.write(lambda tx: let_go(tx, asking.tenant, asking.plugin, digest))
            await self._delete_unkept(asking.tenant, digest)
        return {"deleted": had}

    async def _delete_unkept(self, tenant: str, digest: str) -> None:
        gone = await self._database.read(lambda tx: unkept(tx, [(tenant, digest)]))
        await self._workers.run(lambda: self._shelf.delete(gone))

    # --- for the host -------------------------------------------------------------------------------------------------

    async def forget(self, plugin: str) -> None:
        """Let go of all that one plugin keeps, for any tenant; what others keep as well stays. For uninstalling."""
        await self._finished(self._forget(plugin))

    async def _forget(self, plugin: str) -> None:
        async with self._changing:
            nobodys = await self._database.write(lambda tx: forget_artifacts(tx, plugin))
            await self._workers.run(lambda: self._shelf.delete(nobodys))

    async def kept(self, tenant: Tenant, digest: str) -> Artifact:
        """The artifact of this hash, whichever plugin keeps it. For people, who may see what their plugins made.

        Raises:
            NotFound: nobody keeps one.
        """
        found = await self._database.read(lambda tx: any_artifact(tx, tenant, digest)) if is_digest(digest) else None
        if found is None:
            raise NotFound("there is no such artifact", code="artifacts.unknown")
        return found

    async def pieces(self, tenant: Tenant, digest: str, offset: int, length: int) -> AsyncGenerator[bytes, None]:
        """A part of its bytes, a piece at a time.

        Raises:
            NotFound: they are gone.
        """
        descriptor = await self._workers.run(lambda: self._shelf.open(tenant, digest))
        sending = Sending(self._workers, descriptor, offset, length)
        try:
            while piece := await sending.next_piece():
                yield piece
        finally:
            sending.close()

    async def _finished(self, work: Any) -> Any:
        """The work's result. It is brought to its end even when whoever asked goes away meanwhile."""
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Finish what was begun."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._workers.close()


@asynccontextmanager
async def open_artifacts(
    directory: Path,
    database: Database,
    *,
    publish_for: Callable[[Tenant], Publish],
    clock: Clock,
    limits: ArtifactLimits | None = None,
) -> AsyncGenerator[Artifacts, None]:
    """Artifacts whose bytes lie below a directory, for as long as the block runs."""
    shelf = Shelf(directory)
    artifacts = Artifacts(shelf, database, publish_for=publish_for, clock=clock, limits=limits)
    try:
        await asyncio.to_thread(shelf.sweep)
        yield artifacts
    finally:
        await asyncio.shield(artifacts.aclose())


def _readable(tx: Transaction, asking: Asking, digest: str) -> Artifact | None:
    own = own_artifact(tx, asking.tenant, asking.plugin, digest)
    if own is None and digest in asking.handed:
        return any_artifact(tx, asking.tenant, digest)
    return own


def _channel(asking: Asking) -> Channel:
    if asking.channel is None:
        raise CallerError(
            "this plugin has no pipe for artifacts",
            code="artifacts.no_channel",
            hint=f"send and get up to {MOST_INLINE >> 20} MiB in the message: base64, and inline: true",
        )
    return asking.channel
