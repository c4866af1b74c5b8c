"""`/webhooks`: manage the webhooks of a tenant. For its operators only."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from paddock.api.approvals import EMPTY_BODY
from paddock.host.host import Host
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import OPERATOR, TENANT_PARAM, ApiRoute, int_param, json_response, path_param
from paddock.web.routing.schema import (
    BOOLEAN,
    DATE_TIME,
    NON_NEGATIVE_INT,
    TEXT,
    TEXTS,
    Schema,
    array_of,
    body_schema,
    describe,
    nullable,
    object_schema,
    ref,
)
from paddock.web.routing.validation import ParameterSpec, validated_body
from paddock.web.security.authenticate import caller_of
from paddock.webhooks.admin import MAX_LABEL_CHARS, MAX_URL_CHARS
from paddock.webhooks.cloud_event import MAX_PATTERNS

_WEBHOOK_FIELDS: dict[str, Schema] = {
    "tenant": TEXT,
    "id": TEXT,
    "url": TEXT,
    "label": TEXT,
    "types": describe(TEXTS, "Which events: `call.ended`, `plugin.*`, or `*` for all."),
    "personal": describe(BOOLEAN, "Whether what entries say of people is sent too."),
    "enabled": BOOLEAN,
    "disabled_why": nullable(
        describe(TEXT, "`operator`; `gone`: the receiver said 410; `dead_full`: it took nothing for too long.")
    ),
    "created_at": DATE_TIME,
    "created_by": TEXT,
    "before_until": nullable(describe(DATE_TIME, "Until when events are signed with the secret before too.")),
    "position": describe(NON_NEGATIVE_INT, "The last entry of the ledger that it needs not be sent any more."),
    "attempts": describe(NON_NEGATIVE_INT, "How often the one after that was sent."),
    "reason": nullable(describe(TEXT, "Why the last attempt failed.")),
    "failing_at": nullable(DATE_TIME),
    "delivered": describe(NON_NEGATIVE_INT, "How many events it took."),
    "delivered_at": nullable(DATE_TIME),
    "dead": describe(NON_NEGATIVE_INT, "How many dead letters it has."),
    "next_at": nullable(
        describe(DATE_TIME, "When it is tried again, where it fails. A time that is over: now, or once a daemon runs.")
    ),
}

_DEAD_LETTER_FIELDS: dict[str, Schema] = {
    "seq": NON_NEGATIVE_INT,
    "event_id": TEXT,
    "type": TEXT,
    "attempts": NON_NEGATIVE_INT,
    "reason": TEXT,
    "died_at": DATE_TIME,
    "again": describe(BOOLEAN, "Whether somebody asked for another try, which is to come."),
}

_SECRET = describe(TEXT, "What signs its events. It is shown here and never again.")

ADD_BODY = body_schema(
    {
        "url": {**TEXT, "minLength": 1, "maxLength": MAX_URL_CHARS},
        "types": {**TEXTS, "maxItems": MAX_PATTERNS},
        "label": {**TEXT, "maxLength": MAX_LABEL_CHARS},
        "personal": BOOLEAN,
    },
    required=("url",),
    example={"url": "https://hooks.example.invalid/paddock", "types": ["call.*"]},
)
ENABLE_BODY = body_schema(
    {"from_now": describe(BOOLEAN, "Leave out what happened meanwhile.")}, example={"from_now": True}
)
ROTATE_BODY = body_schema(
    {"keep_hours": {**NON_NEGATIVE_INT, "maximum": 720, "description": "How long the secret before signs too (24)."}},
    example={"keep_hours": 24},
)
RETRY_BODY = body_schema({"event": describe(TEXT, "The id of one event; all dead letters without.")}, example={})

SCHEMAS: dict[str, Schema] = {
    "Webhook": object_schema(_WEBHOOK_FIELDS, description="Whom a tenant's events are sent to."),
    "WebhookWithSecret": object_schema({**_WEBHOOK_FIELDS, "secret": _SECRET}),
    "Webhooks": object_schema({"webhooks": array_of(object_schema(_WEBHOOK_FIELDS))}),
    "WebhookTest": object_schema(
        {
            "taken": BOOLEAN,
            "status": nullable(NON_NEGATIVE_INT),
            "reason": describe(TEXT, "Why it was not taken; empty where it was."),
        }
    ),
    "DeadLetters": object_schema({"dead": array_of(object_schema(_DEAD_LETTER_FIELDS))}),
    "WebhookRetry": object_schema({"asked": describe(NON_NEGATIVE_INT, "How many are tried again.")}),
}


_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1000
_LIMIT_PARAM = ParameterSpec(
    f"At most so many ({_DEFAULT_LIMIT}, {_MAX_LIMIT} at most).",
    {"type": "integer", "minimum": 1, "maximum": _MAX_LIMIT},
)
_AFTER_SEQ_PARAM = ParameterSpec("Only those after this number of the ledger.", NON_NEGATIVE_INT)


class WebhookRoutes:
    """Routes that manage webhooks."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/webhooks",
                self.list_webhooks,
                "List webhooks",
                "`webhooks`, and how each is doing.",
                query=TENANT_PARAM,
                response_schema=ref("Webhooks"),
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks",
                self.add_webhook,
                "Have events sent somewhere",
                "The webhook with its `secret`, which is shown this once. 403 where its address may not be sent to.",
                body_description="`url`; `types`: which events, all without; `label`; `personal`: true to"
                " send too what they"
                " say of people.",
                request_schema=ADD_BODY,
                response_schema=ref("WebhookWithSecret"),
                status=201,
                error_statuses=(409,),
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/webhooks/{id}",
                self.show_webhook,
                "Look at a webhook",
                "The webhook.",
                query=TENANT_PARAM,
                response_schema=ref("Webhook"),
                access=OPERATOR,
            ),
            ApiRoute(
                "DELETE",
                "/webhooks/{id}",
                self.remove_webhook,
                "Remove a webhook",
                "Nothing: its secrets and dead letters are gone.",
                query=TENANT_PARAM,
                status=204,
                media_type="",
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/enable",
                self.enable_webhook,
                "Switch a webhook on",
                "The webhook. It is sent what happened while it was off.",
                body_description="`from_now`: true to leave that out.",
                request_schema=ENABLE_BODY,
                response_schema=ref("Webhook"),
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/disable",
                self.disable_webhook,
                "Switch a webhook off",
                "The webhook.",
                body_description="Nothing.",
                request_schema=EMPTY_BODY,
                response_schema=ref("Webhook"),
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/rotate",
                self.rotate_webhook,
                "Give a webhook another secret",
                "The webhook with its new `secret`, which is shown this once. Events are signed with both for a while.",
                body_description="`keep_hours`: for how long (24).",
                request_schema=ROTATE_BODY,
                response_schema=ref("WebhookWithSecret"),
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/test",
                self.test_webhook,
                "Try a webhook out",
                "What came of sending it an event that stands for nothing.",
                body_description="Nothing.",
                request_schema=EMPTY_BODY,
                response_schema=ref("WebhookTest"),
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/webhooks/{id}/dead",
                self.list_dead,
                "List what a webhook did not take",
                "`dead`: dead letters in the order of the ledger, with why.",
                query=TENANT_PARAM | {"limit": _LIMIT_PARAM, "after": _AFTER_SEQ_PARAM},
                response_schema=ref("DeadLetters"),
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/retry",
                self.retry_dead,
                "Try dead letters again",
                "How many are `asked` for again; each is tried once, within seconds.",
                body_description="`event`: the id of one event; all dead letters without.",
                request_schema=RETRY_BODY,
                response_schema=ref("WebhookRetry"),
                status=202,
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
        ]

    async def list_webhooks(self, request: Request) -> Response:
        return json_response(
            {"webhooks": await self._host.webhooks.list_all(await request_tenant(self._host, request))}
        )

    async def add_webhook(self, request: Request) -> Response:
        body, tenant = validated_body(request), await request_tenant(self._host, request)
        webhook, secret = await self._host.webhooks.add(
            tenant,
            caller_of(request).principal.id,
            body["url"],
            body.get("types", []),
            body.get("label", ""),
            personal=body.get("personal", False),
        )
        return json_response(webhook | {"secret": secret.reveal()}, 201)

    async def show_webhook(self, request: Request) -> Response:
        return json_response(
            await self._host.webhooks.find(await request_tenant(self._host, request), path_param(request, "id"))
        )

    async def remove_webhook(self, request: Request) -> Response:
        tenant, principal_id = await request_tenant(self._host, request), caller_of(request).principal.id
        await self._host.webhooks.remove(tenant, principal_id, path_param(request, "id"))
        return Response(status_code=204)

    async def enable_webhook(self, request: Request) -> Response:
        return await self._set_enabled(request, on=True)

    async def disable_webhook(self, request: Request) -> Response:
        return await self._set_enabled(request, on=False)

    async def _set_enabled(self, request: Request, *, on: bool) -> Response:
        tenant, principal_id, webhook_id = (
            await request_tenant(self._host, request),
            caller_of(request).principal.id,
            path_param(request, "id"),
        )
        from_now = validated_body(request).get("from_now", False)
        return json_response(
            await self._host.webhooks.set_enabled(tenant, principal_id, webhook_id, on=on, from_now=from_now)
        )

    async def rotate_webhook(self, request: Request) -> Response:
        tenant, principal_id = await request_tenant(self._host, request), caller_of(request).principal.id
        overlap = timedelta(hours=validated_body(request).get("keep_hours", 24))
        webhook, secret = await self._host.webhooks.rotate(tenant, principal_id, path_param(request, "id"), overlap)
        return json_response(webhook | {"secret": secret.reveal()})

    async def test_webhook(self, request: Request) -> Response:
        attempt = await self._host.webhooks.send_test(
            await request_tenant(self._host, request), path_param(request, "id")
        )
        return json_response({"taken": attempt.succeeded, "status": attempt.status, "reason": attempt.reason})

    async def list_dead(self, request: Request) -> Response:
        tenant, limit = await request_tenant(self._host, request), int_param(request, "limit", _DEFAULT_LIMIT)
        after = int_param(request, "after", 0)
        return json_response(
            {
                "dead": await self._host.webhooks.list_dead_letters(
                    tenant, path_param(request, "id"), limit=limit, after=after
                )
            }
        )

    async def retry_dead(self, request: Request) -> Response:
        tenant, principal_id = await request_tenant(self._host, request), caller_of(request).principal.id
        count = await self._host.webhooks.retry_dead_letters(
            tenant, principal_id, path_param(request, "id"), validated_body(request).get("event")
        )
        return json_response({"asked": count}, 202)
