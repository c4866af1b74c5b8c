"""Repair, removal and aliases of plugins. They apply to all tenants, and need a person who operates the host."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.ids import PrincipalId
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.web.routing.route import (
    EMPTY_BODY,
    HOST,
    MAX_NAME_CHARS,
    ApiRoute,
    JsonResponse,
    RequestBody,
    path_param,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of

_NEEDS_PERSON = " Needs a signed-in person, not an API key."
_ALIAS_TAG = "plugins"


class RepairedPluginJson(TypedDict):
    """A plugin whose files were compared with its installed packages."""

    name: str
    version: Annotated[str, "The version in use."]
    restored: Annotated[list[str], "The versions that had been modified and are restored."]


class RemovedPluginJson(TypedDict):
    """A plugin, or one version of it, that was removed or could be."""

    name: str
    version: Annotated[str | None, "The version; null if all are meant."]
    removed: Annotated[bool, "False for a `dry_run`."]
    purge_pending: Annotated[bool, "Whether its data is still here, because a call has not ended."]


class RemoveBody(TypedDict):
    version: NotRequired[
        Annotated[str, MemberConstraint(min_length=1, max_length=MAX_NAME_CHARS), "Remove only this version."]
    ]
    force: NotRequired[Annotated[bool, "Even if it is pinned."]]
    dry_run: NotRequired[Annotated[bool, "Change nothing: 404 or 409 if the plugin or that version cannot be removed."]]


class AliasJson(TypedDict):
    """An alias of a plugin."""

    alias: str
    plugin: str


class AddAliasBody(TypedDict):
    plugin: Annotated[
        str, MemberConstraint(min_length=1, max_length=MAX_NAME_CHARS), "The plugin that the alias stands for."
    ]


class PluginManagementRoutes:
    """Routes that repair and remove plugins, and name them."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "POST",
                "/plugins/{name}/repair",
                self.repair_plugin,
                "Restore the files of a plugin",
                "The versions whose files or environment had been modified: restored from the installed package."
                + _NEEDS_PERSON,
                request_body=EMPTY_BODY,
                error_statuses=(409, 502),
                access=HOST,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/remove",
                self.remove_plugin,
                "Remove a plugin",
                "What was removed. Without `version` these are all versions, with the plugin's data, configuration and"
                " grants. 409 if it is pinned, or if the version is in use." + _NEEDS_PERSON,
                request_body=RequestBody(RemoveBody, {"version": "1.2.0"}),
                error_statuses=(409,),
                access=HOST,
                needs_person=True,
            ),
            ApiRoute(
                "PUT",
                "/aliases/{alias}",
                self.add_alias,
                "Add an alias of a plugin",
                "The alias, and the plugin's own name. 409 if a plugin has that name itself." + _NEEDS_PERSON,
                request_body=RequestBody(AddAliasBody, {"plugin": "slow-count"}),
                error_statuses=(409,),
                tag=_ALIAS_TAG,
                access=HOST,
                needs_person=True,
            ),
            ApiRoute(
                "DELETE",
                "/aliases/{alias}",
                self.remove_alias,
                "Remove an alias of a plugin",
                "No content." + _NEEDS_PERSON,
                status=204,
                media_type="",
                tag=_ALIAS_TAG,
                access=HOST,
                needs_person=True,
            ),
        ]

    async def repair_plugin(self, request: Request) -> JsonResponse[RepairedPluginJson]:
        repaired = await self._host.plugins.versions.repair(path_param(request), _person(request))
        plugin = repaired.plugin
        return JsonResponse(
            {"name": plugin.name, "version": plugin.current_version, "restored": list(repaired.restored)}
        )

    async def remove_plugin(self, request: Request) -> JsonResponse[RemovedPluginJson]:
        name, person, uninstaller = path_param(request), _person(request), self._host.plugins.uninstaller
        body = validated_body(request, RemoveBody)
        version, force = body.get("version"), body.get("force", False)
        if body.get("dry_run", False):
            plugin = await uninstaller.check_removable(name, version, force=force)
            return JsonResponse({"name": plugin, "version": version, "removed": False, "purge_pending": False})
        if version is not None:
            plugin = await uninstaller.uninstall_version(name, version, person, force=force)
            return JsonResponse({"name": plugin, "version": version, "removed": True, "purge_pending": False})
        removed = await uninstaller.uninstall(name, person, force=force)
        return JsonResponse(
            {"name": removed.plugin, "version": None, "removed": True, "purge_pending": removed.purge_pending}
        )

    async def add_alias(self, request: Request) -> JsonResponse[AliasJson]:
        alias = path_param(request, "alias")
        plugin = validated_body(request, AddAliasBody)["plugin"]
        return JsonResponse(
            {"alias": alias, "plugin": await self._host.plugins.aliases.add(alias, plugin, _person(request))}
        )

    async def remove_alias(self, request: Request) -> Response:
        await self._host.plugins.aliases.remove(path_param(request, "alias"), _person(request))
        return Response(status_code=204)


def _person(request: Request) -> PrincipalId:
    """Return the person who asks.

    Raises:
        Denied: it is a program with a key.
    """
    return require_interactive_person(caller_of(request).principal).id
