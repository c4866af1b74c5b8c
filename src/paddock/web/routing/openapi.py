"""The published description of the API, written from the same rows that the router has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paddock.gate.idempotency.states import MAX_KEY_CHARS
from paddock.web.routing.error_formats import PROBLEM_FORMAT, ErrorFormat
from paddock.web.routing.route import ANYBODY, API_PREFIX, EVENT_STREAM, JSON, MAX_NAME_CHARS, ApiRoute, ExtraResponse
from paddock.web.routing.schema import TEXT, Schema, describe, ref
from paddock.web.routing.validation import ParameterSpec, to_parameter_spec
from paddock.web.security.cookies import SESSION_COOKIE

_PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_API_DESCRIPTION = (
    "Errors are problem bodies with a stable `code`. Over TCP a request brings an API key as a bearer token, or the"
    " cookie of a console session. On the daemon's local socket the kernel says who calls: its operator, who may also"
    " name a `tenant` and act as somebody else with `Paddock-As`. Whatever is asked, headers that are too large get"
    " 431, and a request that takes too long to arrive gets 408."
)

_IMPERSONATE_PARAM = ParameterSpec(
    "The operator on the local socket acts as somebody else, with what they may do: `user:ann`, `key:ID`, `agent:PATH`."
)
_IDEMPOTENCY_PARAM = ParameterSpec(
    "What has an effect has it once under one key: the same call again gives the same answer, with"
    " `Idempotency-Replayed: true`; other parameters are a conflict.",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": "^[ -~]+$"},
)
_PATH_PARAM_SCHEMA: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}

# What a status means here. Each operation lists those that it can answer.
STATUS_TEXT = {
    400: "Not valid: `errors` has every mistake with its path.",
    401: "Nobody was proven to be anybody.",
    403: "Denied, with the reason; or a person has to say yes first.",
    404: "There is nothing of that name, as far as the caller may know.",
    409: "It clashes with what is there, or somebody ended it.",
    413: "The body has more than a mebibyte.",
    415: "The body is not JSON.",
    416: "Nothing of that range is there.",
    421: "The request asks for another host.",
    422: "The answer does not fit what was asked, which stays open.",
    429: "Too much at once, or in a while; `Retry-After` says when to come back.",
    500: "Ours: the daemon's log has it under `error_id`.",
    502: "The plugin failed.",
    503: "Not now: `Retry-After` says when to come back.",
    504: "The plugin took too long.",
}
# Who calls is looked up, from where it comes is looked at, and what is asked is checked, whatever the row.
_COMMON_ERROR_STATUSES = (400, 401, 403, 421, 500, 503)
_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "required": True, "schema": {"type": "integer"}}}
_ERROR_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": TEXT}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}
_INTERNAL_ERROR_TEXT = {"ShuProblem": "Ours, or what the plugin gave breaks its own schema: `output_validation_error`."}


def build_openapi(endpoints: Sequence[ApiRoute], components: Mapping[str, Schema], version: str) -> dict[str, Any]:
    """The whole OpenAPI document."""
    paths: dict[str, Any] = {}
    for one in endpoints:
        path = _PATH_PARAMETER.sub(r"{\1}", one.prefix + one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Paddock", "version": version, "description": _API_DESCRIPTION},
        "tags": [{"name": name} for name in dict.fromkeys(_tag(one) for one in endpoints)],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {str(status): _error_response(status, PROBLEM_FORMAT) for status in STATUS_TEXT},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key: `paddock apikey create`."},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": SESSION_COOKIE,
                    "description": "The session of a person who signed in.",
                },
            },
        },
    }


def error_statuses_of(one: ApiRoute) -> list[int]:
    """Every status that an operation can fail with."""
    found = {*_COMMON_ERROR_STATUSES, *one.error_statuses}
    if "{" in one.path or "tenant" in one.query:
        found.add(404)
    if one.request_schema is not None:
        found |= {413, 415}
    return sorted(found)


def _operation(one: ApiRoute) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": one.summary,
        "operationId": _operation_id(one),
        "tags": [_tag(one)],
        "parameters": list(_parameters(one)),
        "responses": _responses(one),
        "security": [] if one.access is ANYBODY else [{"key": []}, {"session": []}],
        "description": f"For {one.access.value}.",
    }
    if one.request_schema is not None:
        operation["requestBody"] = {
            "description": one.body_description,
            "required": bool(one.request_schema.get("required")),
            "content": {JSON: {"schema": one.request_schema}},
        }
    return operation


def _operation_id(one: ApiRoute) -> str:
    return one.handler.__name__ + ("" if one.prefix in (API_PREFIX, "") else one.prefix.replace("/", "_"))


def _tag(one: ApiRoute) -> str:
    return one.tag or one.path.split("/")[1]


def header_params(one: ApiRoute) -> dict[str, ParameterSpec]:
    """Every header that a row reads, with those that many have in common."""
    headers = dict(one.headers)
    if one.allow_impersonation:
        headers["Paddock-As"] = _IMPERSONATE_PARAM
        if one.method == "POST":
            headers["Idempotency-Key"] = _IDEMPOTENCY_PARAM
    return headers


def _parameters(one: ApiRoute) -> Iterator[dict[str, Any]]:
    for name in _PATH_PARAMETER.findall(one.path):
        yield {"name": name, "in": "path", "required": True, "schema": _PATH_PARAM_SCHEMA}
    for place, named in (("query", one.query), ("header", header_params(one))):
        for name, given in named.items():
            parameter = to_parameter_spec(given)
            shown = {"name": name, "in": place, "description": parameter.description, "schema": parameter.schema}
            yield shown | ({"required": True} if parameter.required else {})


def _responses(one: ApiRoute) -> dict[str, Any]:
    answers = _success_responses(one)
    for status in map(str, error_statuses_of(one)):
        if one.error_format is PROBLEM_FORMAT and status not in answers:
            answers[status] = {"$ref": f"#/components/responses/{status}"}
            continue
        told = _error_response(int(status), one.error_format)
        told["content"] |= answers.get(status, {}).get("content", {})
        answers[status] = told
    return answers


def _success_responses(one: ApiRoute) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, media, words, schema in (
        ExtraResponse(one.status, one.media_type, one.response_description, one.response_schema),
        *one.extra_responses,
    ):
        told = answers.setdefault(str(status), {"description": words, "content": {}})
        if media:
            told["content"][media] = {"schema": describe(TEXT, words) if media == EVENT_STREAM else schema}
    return answers


def _error_response(status: int, frame: ErrorFormat) -> dict[str, Any]:
    words = _INTERNAL_ERROR_TEXT.get(frame.schema, STATUS_TEXT[status]) if status == 500 else STATUS_TEXT[status]
    headers = {"headers": _ERROR_HEADERS[status]} if status in _ERROR_HEADERS else {}
    return {"description": words, **headers, "content": {frame.media_type: {"schema": ref(frame.schema)}}}
