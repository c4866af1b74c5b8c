"""Webhooks: whom a tenant's events are sent to. For its operator alone."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from paddock.host.host import Host
from paddock.http.acting import tenant_of
from paddock.http.auth import caller_of
from paddock.http.checking import Parameter, body_of
from paddock.http.endpoint import OPERATOR, WHOSE, Endpoint, answer, named, number
from paddock.http.schemas.approvals import NOTHING
from paddock.http.schemas.building import COUNT, ref
from paddock.http.schemas.webhooks import ADD, ENABLE, RETRY, ROTATE

_LISTED = 100
_MOST = 1000
_LIMIT = Parameter(
    f"At most so many ({_LISTED}, {_MOST} at most).", {"type": "integer", "minimum": 1, "maximum": _MOST}
)
_AFTER = Parameter("Only those after this number of the ledger.", COUNT)


class WebhookRoutes:
    """Making, changing and looking at webhooks."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/webhooks",
                self.list_webhooks,
                "List webhooks",
                "`webhooks`, and how each is doing.",
                query=WHOSE,
                gives=ref("Webhooks"),
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/webhooks",
                self.add_webhook,
                "Have events sent somewhere",
                "The webhook with its `secret`, which is shown this once. 403 where its address may not be sent to.",
                body="`url`; `types`: which events, all without; `label`; `personal`: true to send too what they say"
                " of people.",
                takes=ADD,
                gives=ref("WebhookWithSecret"),
                status=201,
                fails=(409,),
                query=WHOSE,
                who=OPERATOR,
            ),
            Endpoint(
                "GET",
                "/webhooks/{id}",
                self.show_webhook,
                "Look at a webhook",
                "The webhook.",
                query=WHOSE,
                gives=ref("Webhook"),
                who=OPERATOR,
            ),
            Endpoint(
                "DELETE",
                "/webhooks/{id}",
                self.remove_webhook,
                "Remove a webhook",
                "Nothing: its secrets and dead letters are gone.",
                query=WHOSE,
                status=204,
                media="",
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/webhooks/{id}/enable",
                self.enable_webhook,
                "Switch a webhook on",
                "The webhook. It is sent what happened while it was off.",
                body="`from_now`: true to leave that out.",
                takes=ENABLE,
                gives=ref("Webhook"),
                query=WHOSE,
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/webhooks/{id}/disable",
                self.disable_webhook,
                "Switch a webhook off",
                "The webhook.",
                body="Nothing.",
                takes=NOTHING,
                gives=ref("Webhook"),
                query=WHOSE,
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/webhooks/{id}/rotate",
                self.rotate_webhook,
                "Give a webhook another secret",
                "The webhook with its new `secret`, which is shown this once. Events are signed with both for a while.",
                body="`keep_hours`: for how long (24).",
                takes=ROTATE,
                gives=ref("WebhookWithSecret"),
                query=WHOSE,
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/webhooks/{id}/test",
                self.test_webhook,
                "Try a webhook out",
                "What came of sending it an event that stands for nothing.",
                body="Nothing.",
                takes=NOTHING,
                gives=ref("WebhookTest"),
                query=WHOSE,
                who=OPERATOR,
            ),
            Endpoint(
                "GET",
                "/webhooks/{id}/dead",
                self.list_dead,
                "List what a webhook did not take",
                "`dead`: dead letters in the order of the ledger, with why.",
                query=WHOSE | {"limit": _LIMIT, "after": _AFTER},
                gives=ref("DeadLetters"),
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/webhooks/{id}/retry",
                self.retry_dead,
                "Try dead letters again",
                "How many are `asked` for again; each is tried once, within seconds.",
                body="`event`: the id of one event; all dead letters without.",
                takes=RETRY,
                gives=ref("WebhookRetry"),
                status=202,
                query=WHOSE,
                who=OPERATOR,
            ),
        ]

    async def list_webhooks(self, request: Request) -> Response:
        return answer({"webhooks": await self._host.webhooks.all(await tenant_of(self._host, request))})

    async def add_webhook(self, request: Request) -> Response:
        body, tenant = body_of(request), await tenant_of(self._host, request)
        made, secret = await self._host.webhooks.add(
            tenant,
            caller_of(request).principal.id,
            body["url"],
            body.get("types", []),
            body.get("label", ""),
            personal=body.get("personal", False),
        )
        return answer(made | {"secret": secret.reveal()}, 201)

    async def show_webhook(self, request: Request) -> Response:
        return answer(await self._host.webhooks.show(await tenant_of(self._host, request), named(request, "id")))

    async def remove_webhook(self, request: Request) -> Response:
        tenant, by = await tenant_of(self._host, request), caller_of(request).principal.id
        await self._host.webhooks.remove(tenant, by, named(request, "id"))
        return Response(status_code=204)

    async def enable_webhook(self, request: Request) -> Response:
        return await self._switched(request, on=True)

    async def disable_webhook(self, request: Request) -> Response:
        return await self._switched(request, on=False)

    async def _switched(self, request: Request, *, on: bool) -> Response:
        tenant, by, name = await tenant_of(self._host, request), caller_of(request).principal.id, named(request, "id")
        from_now = body_of(request).get("from_now", False)
        return answer(await self._host.webhooks.switch(tenant, by, name, on=on, from_now=from_now))

    async def rotate_webhook(self, request: Request) -> Response:
        tenant, by = await tenant_of(self._host, request), caller_of(request).principal.id
        keep = timedelta(hours=body_of(request).get("keep_hours", 24))
        hook, secret = await self._host.webhooks.rotate(tenant, by, named(request, "id"), keep)
        return answer(hook | {"secret": secret.reveal()})

    async def test_webhook(self, request: Request) -> Response:
        attempt = await self._host.webhooks.test(await tenant_of(self._host, request), named(request, "id"))
        return answer({"taken": attempt.taken, "status": attempt.status, "reason": attempt.reason})

    async def list_dead(self, request: Request) -> Response:
        tenant, limit = await tenant_of(self._host, request), number(request, "limit", _LISTED)
        after = number(request, "after", 0)
        return answer({"dead": await self._host.webhooks.dead(tenant, named(request, "id"), limit=limit, after=after)})

    async def retry_dead(self, request: Request) -> Response:
        tenant, by = await tenant_of(self._host, request), caller_of(request).principal.id
        asked = await self._host.webhooks.retry(tenant, by, named(request, "id"), body_of(request).get("event"))
        return answer({"asked": asked}, 202)
