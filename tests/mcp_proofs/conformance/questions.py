"""Asking the person behind a call, in the words of whichever revision the server was met with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types


class Unanswered(Exception):
    """Raised out of a stateless request: what it wants to know, and what it knows already."""

    def __init__(self, key: str, message: str, schema: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        super().__init__(key)
        params = types.ElicitRequestFormParams(message=message, requested_schema=dict(schema))
        self.result = types.InputRequiredResult(
            input_requests={key: types.ElicitRequest(params=params)}, request_state=json.dumps(known)
        )


class Asker:
    """The questions of one request.

    Before 2026-07-28 a server asks and waits. Since then it answers with what it wants to know, and is called again
    with that: so a request begins anew each time, and what was answered before comes back as its state.
    """

    def __init__(self, ctx: Any, params: Any) -> None:
        self._ctx = ctx
        self._known: dict[str, Any] = json.loads(params.request_state) if params.request_state else {}
        for key, answer in (params.input_responses or {}).items():
            self._known[key] = {"action": answer.action, "content": answer.content}

    async def form(self, key: str, message: str, properties: Mapping[str, Any], *required: str) -> tuple[str, Any]:
        """What the person did, and what they filled in.

        Raises:
            Unanswered: somebody has to ask them first.
        """
        schema = {"type": "object", "properties": properties, "required": list(required)}
        if self._ctx.protocol_version < "2026":
            answer = await self._ctx.session.elicit_form(message, schema, self._ctx.request_id)
            return answer.action, answer.content
        if key not in self._known:
            raise Unanswered(key, message, schema, self._known)
        return self._known[key]["action"], self._known[key]["content"]
