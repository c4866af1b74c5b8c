"""Decides who may read an artifact. Whatever a reader may not see is reported like what is not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from paddock.capabilities.artifacts.address import find_digests, is_digest
from paddock.capabilities.artifacts.readers import find_received, list_makers, record_recipients
from paddock.capabilities.artifacts.rows import (
    StoredArtifact,
    artifact_not_found_error,
    find_own_artifact,
    require_artifact,
)
from paddock.core.call import OPERATOR, CallContext
from paddock.core.ids import Tenant
from paddock.store.database import Database

MayCall: TypeAlias = Callable[[CallContext, str, str], Awaitable[bool]]
"""Whether a caller may call a plugin's callable without asking a person first."""


class ArtifactAccess:
    """The rights to read artifacts.

    Args:
        database: Holds who made each artifact, and who was given its address.
        may_call: Decides whether a caller may call what made it.
    """

    def __init__(self, database: Database, may_call: MayCall) -> None:
        self._database = database
        self._may_call = may_call

    async def find_readable(self, context: CallContext, digest: str) -> StoredArtifact:
        """Return the artifact of this hash that a caller may read: as the operator, as its recipient, or because they
        may call what made it.

        Raises:
            NotFound: there is none, or none for them.
        """
        tenant, principal = context.tenant, context.principal
        if not is_digest(digest):
            raise artifact_not_found_error()
        if OPERATOR in principal.roles:
            return await self._database.read(lambda tx: require_artifact(tx, tenant, digest))
        received, makers = await self._database.read(
            lambda tx: (find_received(tx, tenant, digest, principal.id), list_makers(tx, tenant, digest))
        )
        if received is not None:
            return received
        for maker in makers:
            if await self._may_call(context, *maker):
                made = await self._database.read(
                    lambda tx, plugin=maker.plugin: find_own_artifact(tx, tenant, plugin, digest)
                )
                if made is not None:
                    return made
        raise artifact_not_found_error()

    async def find_for_plugin(
        self, tenant: Tenant, plugin: str, call: CallContext | None, digest: str
    ) -> StoredArtifact:
        """Return the artifact of this hash that a plugin owns, or that the caller of this call may read.

        Raises:
            NotFound: there is none, or none for them.
        """
        own = await self._database.read(lambda tx: find_own_artifact(tx, tenant, plugin, digest))
        if own is not None:
            return own
        if call is None or call.tenant != tenant:
            raise artifact_not_found_error()
        return await self.find_readable(call, digest)

    async def hand_over(self, plugin: str, context: CallContext, payload: Mapping[str, Any], result: Any) -> None:
        """Record that a plugin's answer hands its artifacts to the caller, and to the person whose key called.

        Addresses that the call itself named are not handed over: a caller who guessed one would only have to find a
        tool that repeats what it is told.
        """
        digests = find_digests(result)
        if digests:
            digests -= find_digests(dict(payload), limit=None)
        if digests:
            principals = {context.principal.id, context.principal.person}
            await self._database.write(
                lambda tx: record_recipients(tx, context.tenant, plugin, digests, sorted(principals))
            )
