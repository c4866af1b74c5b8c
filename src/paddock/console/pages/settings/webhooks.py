"""Webhook pages: the list, a form that adds one and shows its secret once, tests, dead letters and removal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.controls import build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import parse_fields
from paddock.console.forms.request_form import read_form
from paddock.console.one_time_view import OneTimeView
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import PaddockError
from paddock.core.events.index import EVENT_TYPES
from paddock.core.secret import Secret
from paddock.host.host import Host
from paddock.host.ledger.webhooks import WebhookJson
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param
from paddock.webhooks.retry import DeliveryAttempt, failure_hint

_MAX_DEAD_LETTERS: Final = 50  # on one page
_FAMILY_LABELS: Final = {
    "call.*": "Calls",
    "plugin.*": "Plugins",
    "approval.*": "Approvals",
    "person.*": "People",
    "secret.*": "Secrets",
}

_Change = Literal["made", "rotated"]


def webhook_schema() -> dict[str, Any]:
    """Build the schema of the form for a new webhook."""
    return {
        "type": "object",
        "required": ["url"],
        "properties": {
            "url": {
                "type": "string",
                "title": "URL",
                "x-ui": {
                    "help": "Where events are sent, by POST.",
                    "placeholder": "https://hooks.example.com/paddock",
                },
            },
            "label": {
                "type": "string",
                "title": "Name",
                "x-ui": {"help": "What it’s for, such as “alerts to the team”."},
            },
            "families": {
                "type": "array",
                "title": "Events",
                "items": {"enum": list(_FAMILY_LABELS), "x-ui": {"enum_labels": _FAMILY_LABELS}},
                "x-ui": {"help": "Check none, and all events are sent."},
            },
            "types": {
                "type": "array",
                "title": "Single event types",
                "items": {"type": "string"},
                "x-ui": {"help": "One per line, such as plugin.crashed or call.ended."},
            },
            "personal": {
                "type": "boolean",
                "title": "Send personal data too",
                "default": False,
                "x-ui": {"help": "Otherwise what people wrote is left out."},
            },
        },
    }


class _NewSecret(NamedTuple):
    """A signing secret to show once."""

    secret: Secret
    change: _Change


class WebhookPages:
    """Manages the webhooks of a tenant."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._secrets: OneTimeView[_NewSecret] = OneTimeView()
        self._tests: OneTimeView[DeliveryAttempt] = OneTimeView()

    def routes(self) -> list[Page]:
        webhook_route = "/settings/webhooks/{id}"
        return [
            Page("GET", "/settings/webhooks", self.show_list, OPERATOR),
            Page("POST", "/settings/webhooks", self.add, OPERATOR),
            Page("GET", webhook_route, self.show, OPERATOR),
            Page("POST", f"{webhook_route}/test", self.test, OPERATOR),
            Page("POST", f"{webhook_route}/enable", self.enable, OPERATOR),
            Page("POST", f"{webhook_route}/disable", self.disable, OPERATOR),
            Page("POST", f"{webhook_route}/rotate", self.rotate, OPERATOR),
            Page("POST", f"{webhook_route}/retry", self.retry, OPERATOR),
            Page("GET", f"{webhook_route}/remove", self.confirm_remove, OPERATOR),
            Page("POST", f"{webhook_route}/remove", self.remove, OPERATOR),
        ]

    async def show_list(self, request: Request) -> Response:
        return await self._render_list(request, build_form(build_control(webhook_schema())))

    async def _render_list(self, request: Request, form: FormView, status: int = 200) -> Response:
        context = await call_context(self._host, request)
        webhooks = await self._host.ledger.webhooks.list_all(context.tenant)
        listed = [(hook, webhook_state(hook)) for hook in webhooks]
        values = {"webhooks": listed, "form": form, "event_types": _event_types_by_family()}
        return render_page(request, "settings/webhooks.html", values, status)

    async def add(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        shape = build_control(webhook_schema())
        parsed = parse_fields(shape, form.texts)
        value: dict[str, Any] = parsed.value
        url, label, typed = value.get("url", "").strip(), value.get("label", ""), list(value.get("types", ()))
        problems = [*parsed.problems, *self._host.ledger.webhooks.problems(url, typed, label)]
        if problems:
            return await self._render_list(request, build_form(shape, value, problems), 422)
        try:
            hook, secret = await self._host.ledger.webhooks.add(
                context.tenant,
                context.principal.id,
                url,
                [*value.get("families", ()), *typed],
                label,
                personal=value.get("personal", False),
            )
        except PaddockError as error:
            return await self._render_list(request, build_form(shape, value, [error.as_problem()]), 422)
        return self._redirect_to_secret(context.principal.id, hook["id"], secret, "made")

    def _redirect_to_secret(self, viewer: str, webhook_id: str, secret: Secret, change: _Change) -> Response:
        view_key = self._secrets.put(viewer, _NewSecret(secret, change))
        return RedirectResponse(f"{_webhook_path(webhook_id)}?once={view_key}", 303)

    async def show(self, request: Request) -> Response:
        context, webhook_id = await call_context(self._host, request), path_param(request, "id")
        service, viewer, query = self._host.ledger.webhooks, context.principal.id, request.query_params
        hook = await service.find(context.tenant, webhook_id)
        after = int(query["after"]) if query.get("after", "").isdecimal() and len(query["after"]) < 16 else 0
        letters = await service.list_dead_letters(context.tenant, webhook_id, limit=_MAX_DEAD_LETTERS + 1, after=after)
        shown = letters[:_MAX_DEAD_LETTERS]
        tested = self._tests.take(viewer, query.get("tested", ""))
        reasons = [hook["reason"] or "", *(letter["reason"] for letter in shown), tested.reason if tested else ""]
        new_secret = self._secrets.take(viewer, query.get("once", ""))
        values = {
            "hook": hook,
            "state": webhook_state(hook),
            "hints": _failure_hints(reasons),
            "letters": shown,
            "next_after": shown[-1]["seq"] if len(letters) > len(shown) else None,
            "secret": new_secret.secret.reveal() if new_secret else "",
            "change": new_secret.change if new_secret else "",
            "missed": "once" in query and new_secret is None,
            "tested": tested,
        }
        return render_page(request, "settings/webhook.html", values)

    async def test(self, request: Request) -> Response:
        context, webhook_id = await call_context(self._host, request), path_param(request, "id")
        attempt = await self._host.ledger.webhooks.send_test(context.tenant, webhook_id)
        # Redirect: loading the page again must not send another event.
        view_key = self._tests.put(context.principal.id, attempt)
        return RedirectResponse(f"{_webhook_path(webhook_id)}?tested={view_key}", 303)

    async def enable(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        webhook_id, from_now = path_param(request, "id"), bool(form.last_text("from_now"))
        await self._host.ledger.webhooks.set_enabled(
            context.tenant, context.principal.id, webhook_id, on=True, from_now=from_now
        )
        return redirect_with_flash(_webhook_path(webhook_id), "webhook_on_from_now" if from_now else "webhook_on")

    async def disable(self, request: Request) -> Response:
        context, webhook_id = await call_context(self._host, request), path_param(request, "id")
        await self._host.ledger.webhooks.set_enabled(context.tenant, context.principal.id, webhook_id, on=False)
        return redirect_with_flash(_webhook_path(webhook_id), "webhook_off")

    async def rotate(self, request: Request) -> Response:
        context, webhook_id = await call_context(self._host, request), path_param(request, "id")
        _, secret = await self._host.ledger.webhooks.rotate(context.tenant, context.principal.id, webhook_id)
        return self._redirect_to_secret(context.principal.id, webhook_id, secret, "rotated")

    async def retry(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        webhook_id = path_param(request, "id")
        await self._host.ledger.webhooks.retry_dead_letters(
            context.tenant, context.principal.id, webhook_id, form.last_text("event") or None
        )
        return redirect_with_flash(_webhook_path(webhook_id), "webhook_retried")

    async def confirm_remove(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        hook = await self._host.ledger.webhooks.find(context.tenant, path_param(request, "id"))
        return render_page(request, "settings/webhook_remove.html", {"hook": hook})

    async def remove(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        await self._host.ledger.webhooks.remove(context.tenant, context.principal.id, path_param(request, "id"))
        return redirect_with_flash("/settings/webhooks", "webhook_removed")


class WebhookState(NamedTuple):
    """The state of a webhook in words, with its severity class."""

    text: str
    mood: Literal["good", "busy", "bad", "calm"]


_DISABLED_TEXTS: Final = {
    "gone": "Disabled: the receiver answered 410 Gone",
    "dead_full": "Disabled: too many events were not delivered",
}


def webhook_state(hook: WebhookJson) -> WebhookState:
    """Describe whether a webhook delivers."""
    if not hook["enabled"]:
        return WebhookState(_DISABLED_TEXTS.get(hook["disabled_why"] or "", "Disabled"), "calm")
    if hook["reason"]:
        return WebhookState("Failing", "bad")
    if hook["dead"]:
        return WebhookState("Some events were not delivered", "bad")
    return WebhookState("Working", "good")


def _failure_hints(reasons: Sequence[str]) -> dict[str, str]:
    return {reason: failure_hint(reason) for reason in dict.fromkeys(reasons) if reason}


def _event_types_by_family() -> list[tuple[str, list[str]]]:
    families: dict[str, list[str]] = {}
    for event_type in sorted(EVENT_TYPES):
        families.setdefault(event_type.partition(".")[0], []).append(event_type)
    return sorted(families.items())


def _webhook_path(webhook_id: str) -> str:
    return f"/settings/webhooks/{quote(webhook_id, safe='')}"
