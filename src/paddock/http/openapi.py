"""The published description of the API, written from the same rows that the router has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from paddock.gate.effects.keys import LONGEST as LONGEST_KEY
from paddock.http.checking import Parameter, as_parameter
from paddock.http.cookies import NAME as SESSION_COOKIE
from paddock.http.endpoint import ANYBODY, EVENTS, JSON, LONGEST_NAME, PREFIX, Also, Endpoint
from paddock.http.frames import PROBLEM, Frame
from paddock.http.schemas.building import TEXT, Schema, ref, said
from paddock.http.schemas.components import COMPONENTS

_PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_ABOUT = (
    "Errors are problem bodies with a stable `code`. Over TCP a request brings an API key as a bearer token, or the"
    " cookie of a console session. On the daemon's local socket the kernel says who calls: its operator, who may also"
    " name a `tenant` and act as somebody else with `Paddock-As`. Whatever is asked, headers that are too large get"
    " 431, and a request that takes too long to arrive gets 408."
)

_AS = Parameter(
    "The operator on the local socket acts as somebody else, with what they may do: `user:ann`, `key:ID`, `agent:PATH`."
)
_KEY = Parameter(
    "What has an effect has it once under one key: the same call again gives the same answer, with"
    " `Idempotency-Replayed: true`; other parameters are a conflict.",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[ -~]+$"},
)
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}

# What a status means here. Each operation lists those that it can answer.
STATUSES = {
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
_ANYWHERE = (400, 401, 403, 421, 500, 503)
_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "required": True, "schema": {"type": "integer"}}}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": TEXT}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}
_WORDS_OF_500 = {"ShuProblem": "Ours, or what the plugin gave breaks its own schema: `output_validation_error`."}


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The whole OpenAPI document."""
    paths: dict[str, Any] = {}
    for one in endpoints:
        path = _PATH_PARAMETER.sub(r"{\1}", one.prefix + one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Paddock", "version": version, "description": _ABOUT},
        "tags": [{"name": name} for name in dict.fromkeys(_tag(one) for one in endpoints)],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "responses": {str(status): _failure(status, PROBLEM) for status in STATUSES},
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


def failing_statuses(one: Endpoint) -> list[int]:
    """Every status that an operation can fail with."""
    found = {*_ANYWHERE, *one.fails}
    if "{" in one.path or "tenant" in one.query:
        found.add(404)
    if one.takes is not None:
        found |= {413, 415}
    return sorted(found)


def _operation(one: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": one.summary,
        "operationId": _operation_id(one),
        "tags": [_tag(one)],
        "parameters": list(_parameters(one)),
        "responses": _responses(one),
        "security": [] if one.who is ANYBODY else [{"key": []}, {"session": []}],
        "description": f"For {one.who.value}.",
    }
    if one.takes is not None:
        operation["requestBody"] = {
            "description": one.body,
            "required": bool(one.takes.get("required")),
            "content": {JSON: {"schema": one.takes}},
        }
    return operation


def _operation_id(one: Endpoint) -> str:
    return one.handler.__name__ + ("" if one.prefix in (PREFIX, "") else one.prefix.replace("/", "_"))


def _tag(one: Endpoint) -> str:
    return one.tag or one.path.split("/")[1]


def headers_of(one: Endpoint) -> dict[str, Parameter]:
    """Every header that a row reads, with those that many have in common."""
    headers = dict(one.headers)
    if one.for_others:
        headers["Paddock-As"] = _AS
        if one.method == "POST":
            headers["Idempotency-Key"] = _KEY
    return headers


def _parameters(one: Endpoint) -> Iterator[dict[str, Any]]:
    for name in _PATH_PARAMETER.findall(one.path):
        yield {"name": name, "in": "path", "required": True, "schema": _NAME}
    for place, named in (("query", one.query), ("header", headers_of(one))):
        for name, given in named.items():
            parameter = as_parameter(given)
            shown = {"name": name, "in": place, "description": parameter.words, "schema": parameter.schema}
            yield shown | ({"required": True} if parameter.required else {})


def _responses(one: Endpoint) -> dict[str, Any]:
    answers = _good_answers(one)
    for status in map(str, failing_statuses(one)):
        if one.frame is PROBLEM and status not in answers:
            answers[status] = {"$ref": f"#/components/responses/{status}"}
            continue
        told = _failure(int(status), one.frame)
        told["content"] |= answers.get(status, {}).get("content", {})
        answers[status] = told
    return answers


def _good_answers(one: Endpoint) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, media, words, schema in (Also(one.status, one.media, one.answer, one.gives), *one.also):
        told = answers.setdefault(str(status), {"description": words, "content": {}})
        if media:
            told["content"][media] = {"schema": said(TEXT, words) if media == EVENTS else schema}
    return answers


def _failure(status: int, frame: Frame) -> dict[str, Any]:
    words = _WORDS_OF_500.get(frame.schema, STATUSES[status]) if status == 500 else STATUSES[status]
    headers = {"headers": _HEADERS[status]} if status in _HEADERS else {}
    return {"description": words, **headers, "content": {frame.media: {"schema": ref(frame.schema)}}}
