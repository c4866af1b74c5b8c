"""Pages of the active rules, of earlier versions, and of the policy's test cases."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.console.text.rule_text import diff_rules, filter_rules, summarize_rules
from paddock.core.errors import Conflict, Invalid, PaddockError, Problem
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.host import Host
from paddock.policy.cases import PolicyCase
from paddock.web.request_context import call_context
from paddock.web.routing.route import HOST, OPERATOR, path_param
from paddock.web.security.authenticate import caller_of


class PolicyPages:
    """Shows rules, earlier versions and test results."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/policy", self.show, OPERATOR),
            Page("GET", "/policy/tests", self.show_tests, OPERATOR),
            Page("POST", "/policy/tests", self.save_cases, HOST),
            Page("GET", "/policy/versions/{version}", self.show_version, OPERATOR),
        ]

    async def show(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        active = await self._host.policy.rules.active_rules(context.tenant)
        summaries = await asyncio.to_thread(summarize_rules, active.rules)
        search, effect = request.query_params.get("q", "").strip(), request.query_params.get("effect", "")
        values = {
            "version": active.rules.version,
            "history": active.history,
            "counts": {
                rule_effect: sum(rule.effect == rule_effect for rule in summaries)
                for rule_effect in ("allows", "asks", "forbids")
            },
            "own": sum(rule.own for rule in summaries),
            "rules": filter_rules(summaries, search, effect),
            "all": len(summaries),
            "words": search,
            "effect": effect,
            "unusable": active.load_error,
            "problems": _problems_in(active.load_error),
            "doubtful": active.unknown_names,
            # Only operators of the host may see paths of this machine.
            "files": await self._file_names() if HOST.allows(caller_of(request)) else (),
            "folder": active.folder if context.tenant == DEFAULT_TENANT else None,
        }
        return render_page(request, "policy/policy.html", values)

    async def _file_names(self) -> list[str]:
        """Return the names of the rule files; none if the folder cannot be read, which `load_error` reports."""
        try:
            return [file.name for file in await self._host.policy.editor.list_files()]
        except PaddockError:
            return []

    async def show_version(self, request: Request) -> Response:
        version = path_param(request, "version")
        rules = await self._host.policy.rules.rules_of_version(version)
        active_rules = self._host.policy.active.policy.rules
        summaries = await asyncio.to_thread(summarize_rules, rules)
        context = await call_context(self._host, request)
        values = {
            "version": version,
            "rules": summaries,
            "current": active_rules.version == version,
            "differs": diff_rules(rules, active_rules),
            "folder": context.tenant == DEFAULT_TENANT,
            "files": sorted({summary.file for summary in summaries if summary.own})
            if HOST.allows(caller_of(request))
            else (),
        }
        return render_page(request, "policy/policy_version.html", values)

    async def show_tests(self, request: Request) -> Response:
        return await self._render_tests(request)

    async def save_cases(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        text = form.last_text("text").replace("\r\n", "\n").strip()
        text, digest = f"{text}\n" if text else "", form.last_text("digest") or None
        try:
            await self._host.policy.editor.save_cases(context.principal, text, based_on=digest)
        except PaddockError as error:
            status = 409 if isinstance(error, Conflict) else 422
            return await self._render_tests(request, typed=text, based_on=digest or "", problem=error, status=status)
        return redirect_with_flash("/policy/tests?run=1", "cases_saved")

    async def _render_tests(
        self,
        request: Request,
        *,
        typed: str | None = None,
        based_on: str = "",
        problem: PaddockError | None = None,
        status: int = 200,
    ) -> Response:
        """Render the page of the tests; `typed` is the text of own cases that was not saved, `based_on` its digest.

        A text that was refused keeps its digest: sent once more, it must not replace what another person saved.
        """
        results, stored, own = None, None, list[PolicyCase]()
        edits, editor = HOST.allows(caller_of(request)), self._host.policy.editor
        try:
            stored = await editor.read_cases() if edits else None
            own = await editor.parse_cases(stored.text) if stored else []
        except PaddockError as error:
            problem = problem or error
        if "run" in request.query_params:
            results = await self._host.policy.rules.run_cases(own)
        values = {
            "ran": results,
            "own": len(own),
            "edits": edits,
            "text": typed if typed is not None else stored.text if stored else "",
            "digest": based_on if typed is not None else stored.digest if stored else "",
            "problem": problem,
            "mistakes": _problems_in(problem),
        }
        return render_page(request, "policy/policy_tests.html", values, status)


def _problems_in(error: PaddockError | None) -> tuple[Problem, ...]:
    return tuple(error.problems) if isinstance(error, Invalid) else ()
