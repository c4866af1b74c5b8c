"""The rules in force: what each does, in words and as written, where it comes from, and what held before."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.console.page import Page, page
from paddock.http.console.rule_words import difference, matching, told_of_all
from paddock.http.endpoint import OPERATOR, named


class PolicyPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/policy", self.shown, OPERATOR),
            Page("GET", "/policy/tests", self.tested, OPERATOR),
            Page("GET", "/policy/versions/{version}", self.earlier, OPERATOR),
        ]

    async def shown(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        found = await self._host.policy.in_force(context.tenant)
        everything = await asyncio.to_thread(told_of_all, found.rules)
        words, effect = request.query_params.get("q", "").strip(), request.query_params.get("effect", "")
        values = {
            "version": found.rules.version,
            "history": found.history,
            "counts": {kind: sum(one.effect == kind for one in everything) for kind in ("allows", "asks", "forbids")},
            "own": sum(one.own for one in everything),
            "rules": matching(everything, words, effect),
            "all": len(everything),
            "words": words,
            "effect": effect,
            "unusable": found.unusable,
            "problems": _problems(found.unusable),
            "doubtful": found.doubtful,
            # Where files stand on the machine is for whoever operates it.
            "folder": found.folder if context.tenant == DEFAULT_TENANT else None,
        }
        return page(request, "policy.html", values)

    async def earlier(self, request: Request) -> Response:
        version = named(request, "version")
        rules = await self._host.policy.earlier(version)
        now = self._host.rules.policy.rules
        told = await asyncio.to_thread(told_of_all, rules)
        context = await context_of(self._host, request)
        values = {
            "version": version,
            "rules": told,
            "current": now.version == version,
            "differs": difference(rules, now),
            "folder": context.tenant == DEFAULT_TENANT,
        }
        return page(request, "policy_version.html", values)

    async def tested(self, request: Request) -> Response:
        ran = await self._host.policy.run_cases() if "run" in request.query_params else None
        return page(request, "policy_tests.html", {"ran": ran, "version": self._host.rules.policy.version})


def _problems(error: PaddockError | None) -> tuple[Problem, ...]:
    return tuple(error.problems) if isinstance(error, Invalid) else ()
