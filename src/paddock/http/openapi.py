"""The published description of the API, written from the same rows that the router has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from paddock.http.endpoint import EVENTS, JSON, Endpoint
from paddock.http.problems import MEDIA_TYPE

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_TEXT = {"type": "string"}

_AS = {
    "name": "Paddock-As",
    "in": "header",
    "description": "The operator acts as somebody else, with what they may do: `user:ann`, `key:ID`, `agent:PATH`.",
    "schema": _TEXT,
}

_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "What has an effect has it once under one key: the same call again gives the same answer, with"
    " `Idempotency-Replayed: true`; other parameters are a conflict.",
    "schema": {**_TEXT, "maxLength": 255},
}

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "What went wrong (RFC 9457). `code` is stable; the same one stands in the command line's JSON.",
    "properties": {
        **dict.fromkeys(("type", "title", "code", "detail", "message", "hint", "category", "error_id"), _TEXT),
        "instance": {**_TEXT, "description": "The call that failed, where one was begun."},
        "status": {"type": "integer"},
        "retryable": {"type": "boolean"},
        "details": {"type": "object"},
        "errors": {"type": "array", "description": "Every mistake with its path.", "items": {"type": "object"}},
    },
    "required": ["type", "title", "status", "code", "detail", "error_id", "errors"],
}


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The whole OpenAPI document."""
    paths: dict[str, Any] = {}
    for one in endpoints:
        path = _PARAMETER.sub(r"{\1}", one.prefix + one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Paddock",
            "version": version,
            "description": "The daemon's API, on its local socket. Errors are problem bodies with a stable `code`.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "responses": {
                "Problem": {
                    "description": "It did not work, and why.",
                    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
        },
    }


def _operation(one: Endpoint) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, media, words in ((one.status, one.media, one.answer), *one.also):
        told = answers.setdefault(str(status), {"description": words, "content": {}})
        schema = {**_TEXT, "description": words} if media == EVENTS else {"type": "object"}
        told["content"][media] = {"schema": schema}
    operation: dict[str, Any] = {
        "summary": one.summary,
        "operationId": one.handler.__name__,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _TEXT} for name in _PARAMETER.findall(one.path)),
            *({"name": name, "in": "query", "description": what, "schema": _TEXT} for name, what in one.query.items()),
            *([_AS] if one.for_others else []),
            *([_KEY] if one.for_others and one.method == "POST" else []),
        ],
        "responses": {
            **answers,
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if one.body:
        operation["requestBody"] = {"description": one.body, "content": {JSON: {"schema": {"type": "object"}}}}
    return operation
