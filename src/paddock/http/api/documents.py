"""`/plugins/{name}/tools`, `…/resources` and `…/prompts`: what a plugin offers, and reading what it has to read."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.gate.course import CallCancelled
from paddock.host.host import Host
from paddock.http.acting import context_of, sees_all
from paddock.http.checking import Parameter, body_of
from paddock.http.client import client_of
from paddock.http.cookies import require_page_of_ours
from paddock.http.endpoint import OPERATOR, WHOSE, Endpoint, answer, named
from paddock.http.schemas.building import ref
from paddock.http.schemas.plugins import PROMPT

_ADDRESS = Parameter(
    "Its address: one that is listed, or that fits a template.", {"type": "string", "minLength": 1}, required=True
)
_WITHHELD = (
    "`withheld`, with why. `known` is false for a server that never ran. Whoever is no operator is not told of what the"
    " rules keep from them."
)


class DocumentRoutes:
    """Looking at what plugins have to read, and reading it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/plugins/{name}/tools",
                self.list_tools,
                "List what a plugin can be asked to do",
                "`tools`: each with the name to `call` it by, its `description`, its `parameters` in words, both"
                " schemas, its `effects` and its `standing`; as its manifest declares it, or as its server said when it"
                " last ran. `known` is false for a server that never ran.",
                query=WHOSE,
                gives=ref("Tools"),
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/tools/meet",
                self.meet_tools,
                "Start a server that never ran, to hear what it offers",
                "As `GET /plugins/{name}/tools`; one that has said what it offers is not started.",
                query=WHOSE,
                gives=ref("Tools"),
                fails=(409, 429, 502, 504),
                who=OPERATOR,
            ),
            Endpoint(
                "GET",
                "/plugins/{name}/resources",
                self.list_resources,
                "List the documents of a plugin",
                f"`resources` and `templates`, as its server describes them and somebody accepted it; {_WITHHELD}",
                query=WHOSE,
                gives=ref("Resources"),
            ),
            Endpoint(
                "GET",
                "/plugins/{name}/resources/read",
                self.read_resource,
                "Read a document of a plugin",
                "`contents`, as its server gives them: each with `uri`, `mimeType`, and `text` or `blob`.",
                query=WHOSE | {"uri": _ADDRESS},
                gives=ref("ResourceContents"),
                fails=(409, 429, 502, 504),
                for_others=True,
            ),
            Endpoint(
                "GET",
                "/plugins/{name}/prompts",
                self.list_prompts,
                "List the prompts of a plugin",
                f"`prompts` with their `arguments`; {_WITHHELD}",
                query=WHOSE,
                gives=ref("Prompts"),
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/prompts/{prompt:path}",
                self.get_prompt,
                "Fill a prompt in",
                "`messages`, each with a `role` and its `content`.",
                query=WHOSE,
                body="`arguments`: a text for each argument.",
                takes=PROMPT,
                gives=ref("FilledPrompt"),
                fails=(409, 429, 502, 504),
                for_others=True,
            ),
        ]

    async def list_tools(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        if sees_all(context.principal):
            return answer(await self._host.tools(name, tenant=context.tenant))
        theirs = await self._host.offers.names(name, context)
        listed = await self._host.tools(name, tenant=context.tenant)
        return answer(listed | {"tools": [tool for tool in listed["tools"] if tool["name"] in theirs]})

    async def meet_tools(self, request: Request) -> Response:
        tenant = (await context_of(self._host, request)).tenant
        return await _answered(request, self._host.tools(named(request), tenant=tenant, meet=True))

    async def list_resources(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        shown = sees_all(context.principal) or await self._host.offers.reads(name, context)
        listed = await self._host.resources(name, context.tenant)
        return answer(listed if shown else listed | {"resources": [], "templates": [], "withheld": []})

    async def list_prompts(self, request: Request) -> Response:
        context, name, offers = await context_of(self._host, request), named(request), self._host.offers
        if sees_all(context.principal):
            return answer(await self._host.prompts(name, context.tenant))
        await offers.plugin(name, context)  # not found where their tenant has it not
        listed = await self._host.prompts(name, context.tenant)
        theirs = [one for one in listed["prompts"] if await offers.gives(name, one["name"], context)]
        return answer(listed | {"prompts": theirs})

    async def read_resource(self, request: Request) -> Response:
        require_page_of_ours(request)
        uri = request.query_params["uri"]
        reading = self._host.read_resource(named(request), uri, context=await context_of(self._host, request))
        return await _answered(request, reading)

    async def get_prompt(self, request: Request) -> Response:
        arguments = body_of(request).get("arguments", {})
        asking = self._host.get_prompt(
            named(request), named(request, "prompt"), arguments, context=await context_of(self._host, request)
        )
        return await _answered(request, asking)


async def _answered(request: Request, reading: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """What a server gives; it is not asked any longer once nobody listens."""
    task = asyncio.ensure_future(reading)
    try:
        with client_of(request.scope).when_gone(task.cancel):
            await asyncio.wait({task})
        if task.cancelled():
            raise CallCancelled("nobody waits for it any more")
        return answer(task.result())
    finally:
        task.cancel()  # harmless when it is done
