"""Pinning a plugin to a version, and going back to an earlier one."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.host.host import Host
from paddock.http.auth import caller_of
from paddock.http.checking import body_of
from paddock.http.endpoint import HOST, PREFIX, Endpoint, answer, named
from paddock.http.granted import granted_in
from paddock.http.schemas.building import ref
from paddock.http.schemas.versions import PIN, ROLLBACK

OSQR_PREFIX = "/api"  # as that document writes its routes


class VersionRoutes:
    """Which of its installed versions a plugin is at; for all tenants, so only whoever operates the host decides."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [
            row
            for prefix in (PREFIX, OSQR_PREFIX)
            for row in (
                Endpoint(
                    "POST",
                    "/plugins/{name}/pin",
                    self.pin_plugin,
                    "Hold a plugin at a version",
                    "`pinned_version`, which no upgrade moves, and the `version` in use. Its processes are those of"
                    " that version when this is answered.",
                    body="`version`: one that is installed; null lets it move again.",
                    takes=PIN,
                    gives=ref("Pinned"),
                    fails=(409,),
                    prefix=prefix,
                    who=HOST,
                ),
                Endpoint(
                    "POST",
                    "/plugins/{name}/rollback",
                    self.roll_back,
                    "Go back to an earlier version",
                    "From which version, and to which. 403 with the `capabilities` where that asks for what is not"
                    " granted any more.",
                    body="`version`: the last one before this where it is left out; `grant`: what it asks for and"
                    " somebody said yes to.",
                    takes=ROLLBACK,
                    gives=ref("RolledBack"),
                    fails=(409, 502),
                    prefix=prefix,
                    who=HOST,
                ),
            )
        ]

    async def pin_plugin(self, request: Request) -> Response:
        wanted = body_of(request)["version"]
        row = await self._host.versions.pin(named(request), wanted, caller_of(request).principal.id)
        return answer({"success": True, "pinned_version": row.pinned_version, "version": row.current_version})

    async def roll_back(self, request: Request) -> Response:
        body = body_of(request)
        old, new = await self._host.versions.rollback(
            named(request), body.get("version"), granted_in(body), caller_of(request).principal.id
        )
        return answer({"success": True, "old_version": old, "version": new})
