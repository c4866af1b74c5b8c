"""The inbox page: everything that needs the reader in one live list, answered in place or on its own page."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.request_form import read_form
from paddock.console.live_fragments import LiveFragments
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.console.pages.inbox.answer import AnswerResult, answer_items, answer_message
from paddock.console.pages.inbox.outcome import OutcomeView, find_call, outcome_of, own_outcome
from paddock.console.pages.inbox.tool_inputs import tool_titles
from paddock.console.templates import NAMES, HtmlFragment, render_fragment
from paddock.console.tenant_changes import TenantChanges
from paddock.console.text.inbox_text import (
    KIND_TEXTS,
    danger_texts,
    input_texts,
    item_sentence,
    item_tag,
    other_answerers,
)
from paddock.core.call import CallContext, Principal
from paddock.host.host import Host
from paddock.host.inbox.inbox import ALL_KINDS
from paddock.host.inbox.item import InboxItem, InboxKind, InboxPosition
from paddock.host.inbox.source import InboxQuery
from paddock.web.request_context import call_context
from paddock.web.routing.route import HOST, MAX_NAME_CHARS
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import event_stream

PAGE_ITEMS: Final = 50
_WITH_OTHERS_ITEMS: Final = 20
_MIN_UPDATE_INTERVAL_S: Final = 0.5  # between two lists of one page, however much happens
_MAX_OUTCOME_WAIT_S: Final = 0.5  # for the calls of requests that were answered together
_REFRESH_S: Final = 30.0  # without a recorded change: a full disk, an expired request


class InboxRow(Struct, frozen=True):
    """One item as the list shows it.

    Attributes:
        inputs: The exact inputs, each with its name; None if they have to be looked at on its page.
        choices: The answers that this reader may give from the list.
        groupable: Whether it may be answered together with others that the same rule asked.
    """

    item: InboxItem
    sentence: str
    tag: str
    dangers: Sequence[str]
    others: str
    inputs: Sequence[tuple[str, str]] | None
    choices: Sequence[Any]
    groupable: bool = False
    opened: bool = False


class InboxReader(Struct, frozen=True):
    """Who reads which part of the list: everything that the list depends on.

    Attributes:
        operates_host: Whether they operate the host.
        kind: The kind that the list is filtered by; None for all.
        after: The cursor of a later page; empty for the first.
        opened: The item, or the rule whose items, are open.
    """

    principal: Principal
    operates_host: bool
    kind: InboxKind | None
    after: str
    opened: str

    @classmethod
    def of(cls, request: Request, context: CallContext) -> InboxReader:
        """Return the reader of a request."""
        query = request.query_params
        return cls(
            context.principal,
            HOST.allows(caller_of(request)),
            _requested_kind(request),
            query.get("after", ""),
            query.get("open", "")[:MAX_NAME_CHARS],
        )

    @property
    def query(self) -> InboxQuery:
        """The page of the inbox that they read; raises Invalid if the cursor is none."""
        return InboxQuery(
            self.principal,
            ALL_KINDS if self.kind is None else frozenset({self.kind}),
            after=InboxPosition.from_cursor(self.after) if self.after else None,
            limit=PAGE_ITEMS,
        )


class InboxPages:
    """The inbox."""

    def __init__(self, host: Host, closing: asyncio.Event, changes: TenantChanges) -> None:
        self._host = host
        self._closing = closing
        self._live = LiveFragments[InboxReader](
            self._render_list, changes, min_interval_s=_MIN_UPDATE_INTERVAL_S, max_age_s=_REFRESH_S
        )

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/inbox", self.show),
            Page("GET", "/inbox/live", self.stream),
            Page("POST", "/inbox/answer", self.answer),
            Page("GET", "/inbox/answer", self.redirect_to_list),
        ]

    async def redirect_to_list(self, request: Request) -> Response:
        """Open the list again from the address that an answer to several requests left in the browser."""
        kind = _requested_kind(request)
        return RedirectResponse(f"/inbox?kind={kind.value}" if kind else "/inbox", 303)

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(self, request: Request, results: Sequence[AnswerResult] = (), status: int = 200) -> Response:
        context = await call_context(self._host, request)
        values = await self._list_values(InboxReader.of(request, context))
        values |= {"results": results, "outcome": await self._last_outcome(request, context)}
        values["outcomes"] = await self._outcomes(results, context)
        return render_page(request, "inbox/inbox.html", values, status)

    async def stream(self, request: Request) -> Response:
        reader = InboxReader.of(request, await call_context(self._host, request))
        return event_stream(self._live.follow(reader, reader.principal.tenant), self._closing)

    async def _render_list(self, reader: InboxReader) -> HtmlFragment:
        return render_fragment("inbox/inbox_list.html", await self._list_values(reader))

    async def answer(self, request: Request) -> Response:
        """Answer one item or several, each on its own binding; the next one opens after a single answer."""
        context, form = await call_context(self._host, request), await read_form(request)
        chosen, answer = form.texts.get("item", []), form.last_text("answer")
        following = await self._next_item(request, context, chosen[0].partition(" ")[0] if chosen else "")
        results = await answer_items(self._host, context, chosen, answer)
        if len(results) == 1 and results[0].error is None:
            query = {name: request.query_params[name] for name in ("kind",) if name in request.query_params}
            query |= {"done": results[0].item_id}
            query |= {"open": following} if following else {}
            return redirect_with_flash(f"/inbox?{urlencode(query)}", answer_message(results[0]))
        failed = [result for result in results if result.error is not None]
        return await self._render(request, results, 409 if failed and len(failed) == len(results) else 200)

    async def _next_item(self, request: Request, context: CallContext, item_id: str) -> str:
        """Return the id of the item that follows one, from the first again after the last; empty if there is none."""
        page = await self._host.inbox.page(InboxReader.of(request, context).query)
        ids = [item.id for item in page.items]
        if item_id not in ids:
            return next(iter(ids), "")
        following = ids[ids.index(item_id) + 1 :] + ids[: ids.index(item_id)]
        return next(iter(following), "")

    async def _list_values(self, reader: InboxReader) -> dict[str, Any]:
        inbox, principal, kind, query = self._host.inbox, reader.principal, reader.kind, reader.query
        page, counts = await inbox.page(query), await inbox.counts(principal)
        asked = await inbox.page(InboxQuery(principal, ALL_KINDS, with_others=True, limit=_WITH_OTHERS_ITEMS))
        names = await self._host.identity.names.read(principal.tenant)
        operates_host, opened, titles_of = (
            reader.operates_host,
            reader.opened,
            tool_titles(self._host, principal.tenant),
        )

        def row_of(item: InboxItem, *, opened: bool = False) -> InboxRow:
            titles = titles_of(item.plugin, item.callable)
            return build_row(item, principal, names, titles, operates_host=operates_host, opened=opened)

        rows = [row_of(item, opened=opened in (item.id, *item.rules)) for item in page.items]
        rows = mark_groups(rows)
        ids = [item.id for item in page.items]
        return {
            "rows": rows,
            "number": ids.index(opened) + 1 if opened in ids and query.after is None else 0,
            "counts": counts,
            "shown": counts.total if kind is None else counts.by_kind[kind],
            "kind": kind,
            "kinds": [(one, KIND_TEXTS[one], counts.by_kind[one]) for one in InboxKind if counts.by_kind[one]],
            "groups": sorted(_common_rules(rows).items()),
            "with_others": [row_of(item) for item in asked.items],
            "next": page.next.to_cursor() if page.next else None,
            "query": urlencode(
                {name: text for name, text in (("kind", kind), ("after", reader.after), ("open", opened)) if text}
            ),
            "unavailable": [(KIND_TEXTS[one], error) for one, error in sorted(page.unavailable.items())],
            NAMES: names,
            "me": principal,
        }

    async def _outcomes(self, results: Sequence[AnswerResult], context: CallContext) -> dict[str, OutcomeView]:
        """Return the outcome of each answered request by its item; calls that end at once are waited for."""
        approvals = {result.item_id: result.approval for result in results if result.approval is not None}
        calls = [find_call(self._host, one["call_id"], context) for one in approvals.values()]
        waits = [asyncio.ensure_future(call.wait_ended()) for call in calls if call is not None]
        if waits:
            _, unfinished = await asyncio.wait(waits, timeout=_MAX_OUTCOME_WAIT_S)
            for wait in unfinished:
                wait.cancel()
        return {item_id: outcome_of(self._host, one, context) for item_id, one in approvals.items()}

    async def _last_outcome(self, request: Request, context: CallContext) -> OutcomeView | None:
        """Return the outcome of the request that was answered last."""
        answered = request.query_params.get("done", "")
        return await own_outcome(self._host, answered, context) if answered.startswith("apr_") else None


def _requested_kind(request: Request) -> InboxKind | None:
    """Return the kind that the list is filtered by; None for all, and for one that does not exist."""
    text = request.query_params.get("kind", "")
    return next((kind for kind in InboxKind if kind.value == text), None)


def build_row(
    item: InboxItem,
    me: Principal,
    names: Mapping[str, str],
    titles: Mapping[str, str],
    *,
    operates_host: bool,
    opened: bool = False,
) -> InboxRow:
    """Return an item as the list shows it; `titles` are those of its tool's inputs. Pure."""
    return InboxRow(
        item,
        item_sentence(item, names, me.person),
        item_tag(item),
        danger_texts(item.effects),
        other_answerers(item.answerable_by, me.id, names),
        None if item.inputs is None else input_texts(item.inputs, titles),
        tuple(choice for choice in item.choices if operates_host or not choice.host_only),
        opened=opened,
    )


def mark_groups(rows: Sequence[InboxRow]) -> list[InboxRow]:
    """Mark the rows that may be answered together: the same rule asked for at least two of them. Pure."""
    rules = _common_rules(rows)
    return [
        InboxRow(
            *(row.item, row.sentence, row.tag, row.dangers, row.others, row.inputs, row.choices),
            groupable=bool(row.choices) and not rules.keys().isdisjoint(row.item.rules),
            opened=row.opened,
        )
        for row in rows
    ]


def _common_rules(rows: Sequence[InboxRow]) -> dict[str, int]:
    """Return the rules that asked for at least two items which can be answered from the list, with how many."""
    counted = Counter(rule for row in rows if row.choices for rule in set(row.item.rules))
    return {rule: number for rule, number in counted.items() if number > 1}
