"""Responses to requests that are cancelled when their client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from paddock.gate.invocation import CallCancelled
from paddock.web.disconnect import client_connection
from paddock.web.routing.route import JsonResponse

T = TypeVar("T")


async def respond_until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> JsonResponse[T]:
    """Await some work and render its result. The work is cancelled when the client disconnects."""
    task = asyncio.ensure_future(work)
    try:
        with client_connection(request.scope).on_disconnect(task.cancel):
            await asyncio.wait({task})
        if task.cancelled():
            raise CallCancelled("the caller no longer waits for it")
        return JsonResponse(task.result())
    finally:
        task.cancel()  # no effect if it is done
