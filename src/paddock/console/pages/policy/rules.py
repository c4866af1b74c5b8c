"""The rules in force: what each does, in words and as written, where it comes from, and what held before."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import Page, render_page
from paddock.console.text.rule_text import diff_rules, filter_rules, summarize_rules
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param


class PolicyPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/policy", self.show, OPERATOR),
            Page("GET", "/policy/tests", self.show_tests, OPERATOR),
            Page("GET", "/policy/versions/{version}", self.show_version, OPERATOR),
        ]

    async def show(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        found = await self._host.policy.active_rules(context.tenant)
        everything = await asyncio.to_thread(summarize_rules, found.rules)
        words, effect = request.query_params.get("q", "").strip(), request.query_params.get("effect", "")
        values = {
            "version": found.rules.version,
            "history": found.history,
            "counts": {kind: sum(one.effect == kind for one in everything) for kind in ("allows", "asks", "forbids")},
            "own": sum(one.own for one in everything),
            "rules": filter_rules(everything, words, effect),
            "all": len(everything),
            "words": words,
            "effect": effect,
            "unusable": found.load_error,
            "problems": _problems_in(found.load_error),
            "doubtful": found.unknown_names,
            # Where files stand on the machine is for whoever operates it.
            "folder": found.folder if context.tenant == DEFAULT_TENANT else None,
        }
        return render_page(request, "policy.html", values)

    async def show_version(self, request: Request) -> Response:
        version = path_param(request, "version")
        rules = await self._host.policy.rules_of_version(version)
        now = self._host.active_policy.policy.rules
        told = await asyncio.to_thread(summarize_rules, rules)
        context = await call_context(self._host, request)
        values = {
            "version": version,
            "rules": told,
            "current": now.version == version,
            "differs": diff_rules(rules, now),
            "folder": context.tenant == DEFAULT_TENANT,
        }
        return render_page(request, "policy_version.html", values)

    async def show_tests(self, request: Request) -> Response:
        ran = await self._host.policy.run_cases() if "run" in request.query_params else None
        return render_page(
            request, "policy_tests.html", {"ran": ran, "version": self._host.active_policy.policy.version}
        )


def _problems_in(error: PaddockError | None) -> tuple[Problem, ...]:
    return tuple(error.problems) if isinstance(error, Invalid) else ()
