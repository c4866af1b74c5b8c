"""The rule editor: a file of custom rules is checked and tested in the page before it is saved."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import SubmittedForm, read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import Conflict, HostError, Invalid, NotFound, OperatorError, PaddockError, Problem
from paddock.host.host import Host
from paddock.host.policy.rule_change import MAX_CHANGED_DECISIONS, RuleChange
from paddock.policy.rule_folder import validate_file_name
from paddock.web.request_context import call_context
from paddock.web.routing.route import HOST, MAX_NAME_CHARS, path_param

_NEW_RULES: Final = """\
// A rule has an id, and a text that is shown when it decides. Change this one, or write your own.
@id("night-shift-sends-nothing")
@text("The night shift sends nothing to the outside.")
forbid (principal in Group::"night-shift", action in Action::"anyCall", resource)
when { resource.effects.contains(Effect::"external_send") };
"""
_MAX_LISTED_CALLABLES: Final = 20


class RuleMistake(Struct, frozen=True):
    """A mistake in a rule file, with the line that has it."""

    problem: Problem
    line_text: str = ""
    file: str = ""


class RuleDraft(Struct, frozen=True):
    """The editor's content, and what was found out about it.

    Attributes:
        name: The file; empty while a new one has no name.
        digest: The digest of the text that is being changed; empty for a new file.
        change: What it would do, if it was checked.
        refused: Whether it was not saved, because its consequences were not accepted.
        error: Why it was not saved otherwise.
    """

    name: str
    text: str
    digest: str
    is_new: bool
    change: RuleChange | None = None
    mistakes: tuple[RuleMistake, ...] = ()
    error: PaddockError | None = None
    refused: bool = False
    removal: bool = False
    from_version: str = ""


class RuleFilePages:
    """Adds, edits and removes rule files, for the operators of this host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/policy/files/new", self.show_new, HOST),
            Page("POST", "/policy/files/new", self.submit_new, HOST),
            Page("GET", "/policy/files/{name}", self.show, HOST),
            Page("POST", "/policy/files/{name}", self.submit, HOST),
        ]

    async def show_new(self, request: Request) -> Response:
        return self._render(request, RuleDraft("", _NEW_RULES, "", is_new=True))

    async def show(self, request: Request) -> Response:
        name, version = path_param(request), request.query_params.get("version", "")[:MAX_NAME_CHARS]
        editor = self._host.policy.editor
        try:
            stored = await editor.read(name)
        except NotFound:
            if not version:
                raise
            stored = None
        text = await editor.text_in_version(name, version) if version else stored.text if stored else ""
        file_name = stored.name if stored else validate_file_name(name)
        draft = RuleDraft(file_name, text, stored.digest if stored else "", is_new=stored is None, from_version=version)
        return self._render(request, draft)

    async def submit_new(self, request: Request) -> Response:
        form = await read_form(request)
        return await self._submit(request, form.last_text("name").strip(), form, is_new=True)

    async def submit(self, request: Request) -> Response:
        form = await read_form(request)
        return await self._submit(request, path_param(request), form, is_new=not form.last_text("digest"))

    async def _submit(self, request: Request, name: str, form: SubmittedForm, *, is_new: bool) -> Response:
        """Check, save or remove a file, as the button says."""
        context, editor = await call_context(self._host, request), self._host.policy.editor
        text, digest = form.last_text("text").replace("\r\n", "\n"), form.last_text("digest")
        removal, accept = form.last_text("do") == "remove", form.last_text("accept") or None
        draft = RuleDraft(name, text, digest, is_new=is_new, removal=removal)
        try:
            if form.last_text("do") == "check":
                change = await editor.check(context.principal, name, text)
                return self._render(request, replace(draft, change=change))
            if removal:
                await editor.remove(context.principal, name, based_on=digest, accept=accept)
                return redirect_with_flash("/policy", "rules_removed")
            await editor.save(context.principal, name, text, based_on=digest or None, accept=accept)
        except Invalid as error:
            return self._render(request, replace(draft, mistakes=_mistakes(error, name, text)), 422)
        except Conflict as error:
            if error.error_code != "policy.not_accepted":
                return self._render(request, replace(draft, error=error), 409)
            change = await editor.check(context.principal, name, None if removal else text)
            return self._render(request, replace(draft, change=change, refused=True), 409)
        except (OperatorError, NotFound) as error:
            return self._render(request, replace(draft, error=error), 422)
        except HostError as error:
            return self._render(request, replace(draft, error=error), 500)
        return redirect_with_flash("/policy", "rules_saved")

    def _render(self, request: Request, draft: RuleDraft, status: int = 200) -> Response:
        change = draft.change
        values = {
            "draft": draft,
            "at": f"/policy/files/{quote(draft.name, safe='') if not draft.is_new and draft.name else 'new'}",
            "decisions": change.changed_decisions[:MAX_CHANGED_DECISIONS] if change else (),
            "more_decisions": max(0, len(change.changed_decisions) - MAX_CHANGED_DECISIONS) if change else 0,
            "lost": change.lost[:_MAX_LISTED_CALLABLES] if change else (),
            "more_lost": max(0, len(change.lost) - _MAX_LISTED_CALLABLES) if change else 0,
            "words": self._host.policy.active.policy.rules.vocabulary.words,
        }
        return render_page(request, "policy/rule_file.html", values, status)


def _mistakes(error: Invalid, name: str, text: str) -> tuple[RuleMistake, ...]:
    """Return the mistakes with their lines: of this file with the line's text, of others with their name."""
    lines = text.split("\n")
    own_name = validate_file_name(name)

    def mistake(problem: Problem) -> RuleMistake:
        file = PurePath(problem.path).name
        if file != own_name:
            return RuleMistake(problem, file=file)
        index = (problem.line or 0) - 1
        return RuleMistake(problem, lines[index].strip()[:200] if 0 <= index < len(lines) else "")

    return tuple(map(mistake, error.problems))
