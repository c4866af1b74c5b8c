"""`/webhooks`: manage the webhooks of a tenant. For its operators only."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.schema_annotations import MemberConstraint, NonNegativeInt
from paddock.host.host import Host
from paddock.host.ledger.webhooks import WebhookJson
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import (
    EMPTY_BODY,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    int_param,
    path_param,
)
from paddock.web.routing.validation import NON_NEGATIVE_INT, ParameterSpec, validated_body
from paddock.web.security.authenticate import caller_of
from paddock.webhooks.admin import MAX_LABEL_CHARS, MAX_URL_CHARS
from paddock.webhooks.cloud_event import MAX_PATTERNS
from paddock.webhooks.dead_letters import DeadLetterJson


class WebhooksJson(TypedDict):
    webhooks: list[WebhookJson]


class WebhookWithSecretJson(WebhookJson):
    """A webhook that was just created, or whose secret was just rotated."""

    secret: Annotated[str, "Signs its events. It is shown only once."]


class WebhookTestJson(TypedDict):
    taken: Annotated[bool, "Whether the receiver accepted the event."]
    status: Annotated[NonNegativeInt | None, "The receiver's HTTP status; null if it did not respond."]
    reason: Annotated[str, "Why the delivery failed; empty if it succeeded."]


class DeadLettersJson(TypedDict):
    dead: list[DeadLetterJson]


class WebhookRetryJson(TypedDict):
    asked: Annotated[NonNegativeInt, "The number of dead letters that are retried."]


class AddWebhookBody(TypedDict):
    url: Annotated[str, MemberConstraint(min_length=1, max_length=MAX_URL_CHARS), "The receiver's URL."]
    types: NotRequired[
        Annotated[
            list[str],
            MemberConstraint(max_items=MAX_PATTERNS),
            "The event types to send, such as `call.ended` or `plugin.*`; all by default.",
        ]
    ]
    label: NotRequired[Annotated[str, MemberConstraint(max_length=MAX_LABEL_CHARS), "A note for people."]]
    personal: NotRequired[Annotated[bool, "Whether to send personal data too; false by default."]]


class EnableWebhookBody(TypedDict):
    from_now: NotRequired[Annotated[bool, "Skip the events that occurred while it was disabled."]]


class RotateWebhookBody(TypedDict):
    keep_hours: NotRequired[
        Annotated[int, MemberConstraint(minimum=0, maximum=720), "How long the previous secret signs too (24)."]
    ]


class RetryDeadBody(TypedDict):
    event: NotRequired[Annotated[str, "The id of one event; all dead letters by default."]]


_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1000
_LIMIT_PARAM = ParameterSpec(
    f"Maximum number of dead letters; {_DEFAULT_LIMIT} by default, at most {_MAX_LIMIT}.",
    {"type": "integer", "minimum": 1, "maximum": _MAX_LIMIT},
)
_AFTER_SEQ_PARAM = ParameterSpec("Only those after this ledger position.", NON_NEGATIVE_INT)


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
                "`webhooks`, each with the state of its deliveries.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks",
                self.add_webhook,
                "Add a webhook",
                "The webhook with its `secret`, which is shown only once. 403 if the destination is not allowed.",
                request_body=RequestBody(
                    AddWebhookBody, {"url": "https://hooks.example.invalid/paddock", "types": ["call.*"]}
                ),
                status=201,
                error_statuses=(409,),
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/webhooks/{id}",
                self.show_webhook,
                "Show a webhook",
                "The webhook.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "DELETE",
                "/webhooks/{id}",
                self.remove_webhook,
                "Remove a webhook",
                "No content. Its secrets and dead letters are deleted too.",
                query=TENANT_PARAM,
                status=204,
                media_type="",
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/enable",
                self.enable_webhook,
                "Enable a webhook",
                "The webhook. Events that occurred while it was disabled are sent.",
                request_body=RequestBody(EnableWebhookBody, {"from_now": True}),
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/disable",
                self.disable_webhook,
                "Disable a webhook",
                "The webhook.",
                request_body=EMPTY_BODY,
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/rotate",
                self.rotate_webhook,
                "Rotate the secret of a webhook",
                "The webhook with its new `secret`, which is shown only once. Events are signed with both secrets for a"
                " while.",
                request_body=RequestBody(RotateWebhookBody, {"keep_hours": 24}),
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/test",
                self.test_webhook,
                "Test a webhook",
                "The outcome of sending it a test event.",
                request_body=EMPTY_BODY,
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/webhooks/{id}/dead",
                self.list_dead,
                "List the dead letters of a webhook",
                "`dead`: dead letters in ledger order, each with the reason.",
                query=TENANT_PARAM | {"limit": _LIMIT_PARAM, "after": _AFTER_SEQ_PARAM},
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/webhooks/{id}/retry",
                self.retry_dead,
                "Retry dead letters",
                "`asked`: how many are retried; each once, within seconds.",
                request_body=RequestBody(RetryDeadBody, {}),
                status=202,
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
        ]

    async def list_webhooks(self, request: Request) -> JsonResponse[WebhooksJson]:
        return JsonResponse(
            {"webhooks": await self._host.ledger.webhooks.list_all(await request_tenant(self._host, request))}
        )

    async def add_webhook(self, request: Request) -> JsonResponse[WebhookWithSecretJson]:
        body, tenant = validated_body(request, AddWebhookBody), await request_tenant(self._host, request)
        webhook, secret = await self._host.ledger.webhooks.add(
            tenant,
            caller_of(request).principal.id,
            body["url"],
            body.get("types", []),
            body.get("label", ""),
            personal=body.get("personal", False),
        )
        return JsonResponse({**webhook, "secret": secret.reveal()}, 201)

    async def show_webhook(self, request: Request) -> JsonResponse[WebhookJson]:
        return JsonResponse(
            await self._host.ledger.webhooks.find(await request_tenant(self._host, request), path_param(request, "id"))
        )

    async def remove_webhook(self, request: Request) -> Response:
        tenant, principal_id = await request_tenant(self._host, request), caller_of(request).principal.id
        await self._host.ledger.webhooks.remove(tenant, principal_id, path_param(request, "id"))
        return Response(status_code=204)

    async def enable_webhook(self, request: Request) -> JsonResponse[WebhookJson]:
        from_now = validated_body(request, EnableWebhookBody).get("from_now", False)
        return await self._set_enabled(request, on=True, from_now=from_now)

    async def disable_webhook(self, request: Request) -> JsonResponse[WebhookJson]:
        return await self._set_enabled(request, on=False)

    async def _set_enabled(self, request: Request, *, on: bool, from_now: bool = False) -> JsonResponse[WebhookJson]:
        tenant, principal_id, webhook_id = (
            await request_tenant(self._host, request),
            caller_of(request).principal.id,
            path_param(request, "id"),
        )
        return JsonResponse(
            await self._host.ledger.webhooks.set_enabled(tenant, principal_id, webhook_id, on=on, from_now=from_now)
        )

    async def rotate_webhook(self, request: Request) -> JsonResponse[WebhookWithSecretJson]:
        tenant, principal_id = await request_tenant(self._host, request), caller_of(request).principal.id
        overlap = timedelta(hours=validated_body(request, RotateWebhookBody).get("keep_hours", 24))
        webhook, secret = await self._host.ledger.webhooks.rotate(
            tenant, principal_id, path_param(request, "id"), overlap
        )
        return JsonResponse({**webhook, "secret": secret.reveal()})

    async def test_webhook(self, request: Request) -> JsonResponse[WebhookTestJson]:
        attempt = await self._host.ledger.webhooks.send_test(
            await request_tenant(self._host, request), path_param(request, "id")
        )
        return JsonResponse({"taken": attempt.succeeded, "status": attempt.status, "reason": attempt.reason})

    async def list_dead(self, request: Request) -> JsonResponse[DeadLettersJson]:
        tenant, limit = await request_tenant(self._host, request), int_param(request, "limit", _DEFAULT_LIMIT)
        after = int_param(request, "after", 0)
        return JsonResponse(
            {
                "dead": await self._host.ledger.webhooks.list_dead_letters(
                    tenant, path_param(request, "id"), limit=limit, after=after
                )
            }
        )

    async def retry_dead(self, request: Request) -> JsonResponse[WebhookRetryJson]:
        tenant, principal_id = await request_tenant(self._host, request), caller_of(request).principal.id
        count = await self._host.ledger.webhooks.retry_dead_letters(
            tenant, principal_id, path_param(request, "id"), validated_body(request, RetryDeadBody).get("event")
        )
        return JsonResponse({"asked": count}, 202)
