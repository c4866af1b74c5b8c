"""`/policy/files`: the files of custom rules, for the operators of this host; changes need a signed-in person."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request

from paddock.core.errors import OperatorError
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.host import Host
from paddock.host.policy.rule_change import RuleChangeJson
from paddock.policy.rule_folder import MAX_EDITED_CHARS, StoredRuleFile
from paddock.web.request_context import call_context
from paddock.web.routing.route import HOST, ApiRoute, JsonResponse, RequestBody, path_param
from paddock.web.routing.validation import validated_body

_EXAMPLE = '@id("guests-list-notes") @text("Guests may list notes.")\npermit (principal in Role::"guest", …);'
_NEEDS_PERSON = " Needs a signed-in person, not an API key."

_RuleText = Annotated[str, MemberConstraint(max_length=MAX_EDITED_CHARS), "The rules, in Cedar."]
_Digest = Annotated[str | None, "The `digest` of the text that was changed; null for a new file."]
_Accept = Annotated[str, "The `version` of a checked change whose consequences are accepted."]


class RuleFileJson(TypedDict):
    """A file of custom rules."""

    name: str
    digest: Annotated[str, "Names exactly this text."]
    text: str


class RuleFilesJson(TypedDict):
    files: list[RuleFileJson]


class SavedRuleFileJson(TypedDict):
    """A saved file of rules, and what the change does."""

    file: RuleFileJson
    change: RuleChangeJson


class CheckRuleFileBody(TypedDict):
    text: NotRequired[Annotated[_RuleText | None, "Null checks the removal of the file."]]


class PutRuleFileBody(TypedDict):
    text: _RuleText
    digest: NotRequired[_Digest]
    accept: NotRequired[_Accept]


class PolicyFileRoutes:
    """Routes that read and change rule files."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/policy/files",
                self.list_files,
                "List the files of custom rules",
                "`files`, by name.",
                access=HOST,
            ),
            ApiRoute(
                "GET",
                "/policy/files/{name}",
                self.show_file,
                "Show a file of custom rules",
                "The file; with `version` the rules that it had then, without the comments between them.",
                query={"version": "An earlier version of the rules."},
                access=HOST,
            ),
            ApiRoute(
                "POST",
                "/policy/files/{name}/check",
                self.check_file,
                "Check a change of a file of custom rules",
                "What it would do: policy tests that fail, recent calls that are decided otherwise, and callables that"
                " you could no longer call. 422 with every mistake. Nothing is changed.",
                request_body=RequestBody(CheckRuleFileBody, {"text": _EXAMPLE}),
                access=HOST,
            ),
            ApiRoute(
                "PUT",
                "/policy/files/{name}",
                self.save_file,
                "Save a file of custom rules",
                "The file and what it does; it is in force. 409 if the file was changed meanwhile, or if tests fail,"
                " calls are decided otherwise or you lose callables, and `accept` does not name that version."
                f"{_NEEDS_PERSON}",
                request_body=RequestBody(PutRuleFileBody, {"text": _EXAMPLE, "digest": None}),
                error_statuses=(409,),
                access=HOST,
                needs_person=True,
            ),
            ApiRoute(
                "DELETE",
                "/policy/files/{name}",
                self.remove_file,
                "Remove a file of custom rules",
                f"What the removal does; the file's rules are no longer in force.{_NEEDS_PERSON}",
                query={
                    "digest": "The digest of the text that is removed.",
                    "accept": "The version of a checked change whose consequences are accepted.",
                },
                error_statuses=(409,),
                access=HOST,
                needs_person=True,
            ),
        ]

    async def list_files(self, request: Request) -> JsonResponse[RuleFilesJson]:
        await call_context(self._host, request)
        return JsonResponse({"files": [_file_json(file) for file in await self._host.policy.editor.list_files()]})

    async def show_file(self, request: Request) -> JsonResponse[RuleFileJson]:
        name, version = path_param(request), request.query_params.get("version")
        if version is None:
            return JsonResponse(_file_json(await self._host.policy.editor.read(name)))
        text = await self._host.policy.editor.text_in_version(name, version)
        return JsonResponse(_file_json(StoredRuleFile.of(name, text)))

    async def check_file(self, request: Request) -> JsonResponse[RuleChangeJson]:
        context, body = await call_context(self._host, request), validated_body(request, CheckRuleFileBody)
        change = await self._host.policy.editor.check(context.principal, path_param(request), body.get("text"))
        return JsonResponse(change.to_json())

    async def save_file(self, request: Request) -> JsonResponse[SavedRuleFileJson]:
        context, body = await call_context(self._host, request), validated_body(request, PutRuleFileBody)
        stored, change = await self._host.policy.editor.save(
            context.principal,
            path_param(request),
            body["text"],
            based_on=body.get("digest"),
            accept=body.get("accept"),
        )
        return JsonResponse({"file": _file_json(stored), "change": change.to_json()})

    async def remove_file(self, request: Request) -> JsonResponse[RuleChangeJson]:
        context, query = await call_context(self._host, request), request.query_params
        if "digest" not in query:
            raise OperatorError(
                "the digest of the file is missing", code="invalid_params", hint="add ?digest= from its page"
            )
        change = await self._host.policy.editor.remove(
            context.principal, path_param(request), based_on=query["digest"], accept=query.get("accept")
        )
        return JsonResponse(change.to_json())


def _file_json(file: StoredRuleFile) -> RuleFileJson:
    return {"name": file.name, "digest": file.digest, "text": file.text}
