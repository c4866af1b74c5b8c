"""`/plugins/{name}/configuration`: a plugin's configuration on this machine. Secrets are never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request

from paddock.api.identity.removals import RetainedLogJson, retained_log
from paddock.core.errors import MistakeJson
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.plugins.configuration.config import FieldState
from paddock.secrets.rows import MAX_SECRET_CHARS
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import (
    HOST,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    path_param,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of


class ConfigFieldJson(TypedDict):
    """A configuration field that a plugin declares."""

    key: str
    description: str
    takes: Annotated[str, "What a value looks like."]
    required: bool
    secret: bool
    set: bool
    value: Annotated[Any, "Null if it is not set, or must not be shown."]
    problems: Annotated[list[MistakeJson], "Variables and secrets that it refers to and that are not set."]


class ConfigurationJson(TypedDict):
    """The configuration of a plugin on this machine."""

    name: str
    file: Annotated[str | None, "The file that holds it. Only for operators of this host."]
    fields: list[ConfigFieldJson]


class ChangedConfigurationJson(RetainedLogJson):
    """The fields of a plugin that were changed."""

    name: str
    file: Annotated[str | None, "The file that holds the values. Only for operators of this host."]
    fields: Annotated[list[str], "Those that were set."]
    forgotten: Annotated[list[str], "Those that were removed; what was not set is left out."]
    sealed: Annotated[list[str], "Those that were set and are stored as secrets."]
    in_clear: Annotated[list[str], "Those that are secret and stand in the file as they are, since they are no texts."]
    missing: Annotated[list[str], "Required fields that were removed: the plugin does not run until they are set."]
    unused_config: Annotated[str, "Why the running plugin keeps its old configuration; empty if it does not."]


class SetConfigurationBody(TypedDict):
    values: NotRequired[
        Annotated[
            dict[str, Annotated[str, MemberConstraint(max_length=MAX_SECRET_CHARS, write_only=True)]],
            "New values by field, as a person types them: each is read as the type that the plugin declares."
            " `${secret:NAME}` refers to a secret, and on the local socket `${NAME}` to a variable of the host."
            " Other fields keep their values.",
        ]
    ]
    forget: NotRequired[Annotated[list[str], MemberConstraint(max_items=200), "Fields to remove."]]


class ConfigurationRoutes:
    """Routes that show and change the configuration of plugins."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/plugins/{name}/configuration",
                self.show_configuration,
                "Show the configuration of a plugin",
                "The declared `fields`. Values of secret fields, and values that look like a key, are never shown.",
                query=TENANT_PARAM | {"field": "Only this field; 404 if the plugin does not declare it."},
                access=OPERATOR,
            ),
            ApiRoute(
                "PUT",
                "/plugins/{name}/configuration",
                self.set_configuration,
                "Configure a plugin",
                "The fields that were changed. A running plugin has been given the new configuration. Needs a signed-in"
                " person, not an API key.",
                query=TENANT_PARAM,
                request_body=RequestBody(SetConfigurationBody, {"values": {"region": "eu"}, "forget": ["port"]}),
                error_statuses=(409, 502),
                access=OPERATOR,
                needs_person=True,
            ),
        ]

    async def show_configuration(self, request: Request) -> JsonResponse[ConfigurationJson]:
        configuration = await self._host.plugins.config.describe(
            path_param(request),
            await request_tenant(self._host, request),
            field=request.query_params.get("field"),
        )
        return JsonResponse(
            {
                "name": configuration.plugin,
                "file": _shown_path(request, configuration.file),
                "fields": [_field_json(state) for state in configuration.fields],
            }
        )

    async def set_configuration(self, request: Request) -> JsonResponse[ChangedConfigurationJson]:
        body, caller = validated_body(request, SetConfigurationBody), caller_of(request)
        applied = await self._host.plugins.config.change_from_text(
            path_param(request),
            body.get("values", {}),
            body.get("forget", []),
            variables=caller.via == "socket",
            tenant=await request_tenant(self._host, request),
            by=require_interactive_person(caller.principal).id,
        )
        change = applied.change
        return JsonResponse(
            {
                "name": change.plugin,
                "file": _shown_path(request, change.file),
                "fields": list(change.fields),
                "forgotten": list(change.forgotten),
                "sealed": list(change.sealed),
                "in_clear": list(change.in_clear),
                "missing": list(applied.missing),
                "unused_config": applied.unused_config,
                **retained_log(request, applied.log),
            }
        )


def _field_json(state: FieldState) -> ConfigFieldJson:
    field = state.field
    return {
        "key": field.name,
        "description": field.description,
        "takes": field.in_words,
        "required": field.required,
        "secret": field.secret,
        "set": state.set,
        "value": state.value,
        "problems": [problem.to_dict() for problem in state.problems],
    }


def _shown_path(request: Request, path: Path) -> str | None:
    """Return a path of this machine for those who operate the host."""
    return str(path) if HOST.allows(caller_of(request)) else None
