"""`/sessions` and `/login-links`: how the people of a tenant are signed in at the console.

Operators see the sessions of their tenant and end them in person. Only the operator on the local socket makes links.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request

from paddock.core.schema_annotations import DateTime, MemberConstraint
from paddock.host.host import Host
from paddock.principals.sessions import ConsoleSession
from paddock.web.daemon_address import console_url
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.route import (
    EMPTY_BODY,
    LOCAL,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    path_param,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of

_TAG = "sign-in"


class OpenSessionJson(TypedDict):
    """A console session of a tenant."""

    id: str
    tenant: str
    subject: Annotated[str, "The principal that is signed in, such as `user:ann`."]
    via: Annotated[str, "How they signed in: `link` or `oidc`."]
    opened_at: DateTime
    seen_at: DateTime
    expires_at: DateTime
    ended_at: DateTime | None


class OpenSessionsJson(TypedDict):
    tenant: str
    sessions: list[OpenSessionJson]


class EndedSessionsJson(TypedDict):
    tenant: str
    ended: Annotated[list[str], "The ids of the sessions that were ended."]


class LoginLinkJson(TypedDict):
    """A link that signs a person in, once."""

    url: Annotated[str, "Keep it private. It is shown only once."]
    person: str
    tenant: str
    expires_at: DateTime


class EndSessionsBody(TypedDict):
    person: Annotated[
        str, MemberConstraint(min_length=1), "Whose sessions: a person; on the local socket also `local:NAME`."
    ]


class AddLoginLinkBody(TypedDict):
    person: NotRequired[
        Annotated[str, MemberConstraint(min_length=1), "The person to sign in; by default the operator."]
    ]


class SignInRoutes:
    """Routes for the sign-ins of other people."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/sessions",
                self.list_sessions,
                "List the console sessions of a tenant",
                "`sessions` that have not ended, oldest first.",
                query=TENANT_PARAM | {"person": "Only those of this person."},
                tag=_TAG,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/sessions/end",
                self.end_sessions,
                "End the console sessions and login links of a person",
                "The ids of the `ended` sessions. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                request_body=RequestBody(EndSessionsBody, {"person": "ann"}),
                tag=_TAG,
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/sessions/{id}/end",
                self.end_session,
                "End a console session",
                "The id of the `ended` session. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                request_body=EMPTY_BODY,
                tag=_TAG,
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/login-links",
                self.add_login_link,
                "Create a login link",
                "The link, which is shown only once. 503 if no daemon serves the console.",
                query=TENANT_PARAM,
                request_body=RequestBody(AddLoginLinkBody, {"person": "ann"}),
                status=201,
                error_statuses=(503,),
                tag=_TAG,
                access=LOCAL,
            ),
        ]

    async def list_sessions(self, request: Request) -> JsonResponse[OpenSessionsJson]:
        tenant = await request_tenant(self._host, request)
        sessions = await self._host.identity.people.list_sessions(tenant, request.query_params.get("person"))
        return JsonResponse({"tenant": tenant, "sessions": [_to_json(session) for session in sessions]})

    async def end_sessions(self, request: Request) -> JsonResponse[EndedSessionsJson]:
        body, context = validated_body(request, EndSessionsBody), await call_context(self._host, request)
        ended = await self._host.identity.people.sign_out(
            context.principal, body["person"], allow_local=caller_of(request).operator is not None
        )
        return JsonResponse({"tenant": context.tenant, "ended": [session.id for session in ended]})

    async def end_session(self, request: Request) -> JsonResponse[EndedSessionsJson]:
        context = await call_context(self._host, request)
        session = await self._host.identity.people.end_session(context.principal, path_param(request, "id"))
        return JsonResponse({"tenant": context.tenant, "ended": [session.id]})

    async def add_login_link(self, request: Request) -> JsonResponse[LoginLinkJson]:
        body, context = validated_body(request, AddLoginLinkBody), await call_context(self._host, request)
        base_url = await asyncio.to_thread(console_url, self._host.directories, self._host.settings.http)
        link, token = await self._host.identity.people.create_login_link(
            context.principal, body.get("person", context.principal.id)
        )
        return JsonResponse(
            {
                "url": f"{base_url}/login/{token.reveal()}",
                "person": link.subject,
                "tenant": link.tenant,
                "expires_at": link.expires_at,
            },
            201,
        )


def _to_json(session: ConsoleSession) -> OpenSessionJson:
    return {
        "id": session.id,
        "tenant": session.tenant,
        "subject": session.subject,
        "via": session.via,
        "opened_at": session.opened_at,
        "seen_at": session.seen_at,
        "expires_at": session.expires_at,
        "ended_at": session.ended_at,
    }
