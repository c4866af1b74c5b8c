"""The OpenAPI document, generated from the routes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from paddock.gate.idempotency.key_verdict import MAX_KEY_CHARS
from paddock.web.routing.error_formats import PROBLEM_FORMAT, SHU_FORMAT, ErrorFormat
from paddock.web.routing.route import (
    API_PREFIX,
    EVENT_STREAM,
    JSON,
    MAX_NAME_CHARS,
    PUBLIC,
    ApiRoute,
    ExtraResponse,
    response_type,
)
from paddock.web.routing.schema_from_types import Schema, SchemaComponents
from paddock.web.routing.validation import TEXT, ParameterSpec, to_parameter_spec
from paddock.web.security.cookies import SESSION_COOKIE

_PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_API_DESCRIPTION = (
    "Errors are problem bodies with a stable `code`. Over TCP a request brings an API key as a bearer token, or the"
    " cookie of a console session. On the daemon's local socket the kernel says who calls: its operator, who may also"
    " name a `tenant` and act as somebody else with `Paddock-As`. Whatever is asked, headers that are too large get"
    " 431, and a request that takes too long to arrive gets 408."
)

_IMPERSONATE_PARAM = ParameterSpec(
    "The operator on the local socket acts as another principal, with their rights: `user:ann`, `key:ID`, `agent:PATH`."
)
_IDEMPOTENCY_PARAM = ParameterSpec(
    "What has an effect has it once under one key: the same call again gives the same answer, with"
    " `Idempotency-Replayed: true`; other parameters are a conflict.",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": "^[ -~]+$"},
)
_PATH_PARAM_SCHEMA: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}

# What each status means here. Every operation lists those that it can return.
STATUS_TEXT = {
    400: "Not valid: `errors` has every mistake with its path.",
    401: "Authentication required.",
    403: "Denied, with the reason; or a person has to approve it first.",
    404: "There is nothing of that name, as far as the caller may know.",
    409: "It conflicts with the current state, or was ended.",
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
# Authentication, origin checks and validation apply to every route.
_COMMON_ERROR_STATUSES = (400, 401, 403, 421, 500, 503)
_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "required": True, "schema": {"type": "integer"}}}
_ERROR_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": TEXT}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}
_SHU_INTERNAL_ERROR_TEXT = "Internal error, or the plugin's result violates its own schema: `output_validation_error`."


def build_openapi(endpoints: Sequence[ApiRoute], version: str) -> dict[str, Any]:
    """Build the OpenAPI document."""
    components = SchemaComponents()
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        path = _PATH_PARAMETER.sub(r"{\1}", endpoint.prefix + endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, components)
    error_responses = {str(status): _error_response(status, PROBLEM_FORMAT, components) for status in STATUS_TEXT}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Paddock", "version": version, "description": _API_DESCRIPTION},
        "tags": [{"name": name} for name in dict.fromkeys(_tag(endpoint) for endpoint in endpoints)],
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "responses": error_responses,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key: `paddock apikey add`."},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": SESSION_COOKIE,
                    "description": "The session of a person who signed in.",
                },
            },
        },
    }


def error_statuses_of(endpoint: ApiRoute) -> list[int]:
    """List every error status that an operation can return."""
    statuses = {*_COMMON_ERROR_STATUSES, *endpoint.error_statuses}
    if "{" in endpoint.path or "tenant" in endpoint.query:
        statuses.add(404)
    if endpoint.request_schema is not None:
        statuses |= {413, 415}
    return sorted(statuses)


def _operation(endpoint: ApiRoute, components: SchemaComponents) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _operation_id(endpoint),
        "tags": [_tag(endpoint)],
        "parameters": list(_parameters(endpoint)),
        "responses": _responses(endpoint, components),
        "security": [] if endpoint.access is PUBLIC else [{"key": []}, {"session": []}],
        "description": f"For {endpoint.access.value}.",
    }
    if endpoint.request_body is not None and endpoint.request_schema is not None:
        description = endpoint.request_body.description
        operation["requestBody"] = {
            **({"description": description} if description else {}),
            "required": bool(endpoint.request_schema.get("required")),
            "content": {JSON: {"schema": endpoint.request_schema}},
        }
    return operation


def _operation_id(endpoint: ApiRoute) -> str:
    return endpoint.handler.__name__ + (
        "" if endpoint.prefix in (API_PREFIX, "") else endpoint.prefix.replace("/", "_")
    )


def _tag(endpoint: ApiRoute) -> str:
    return endpoint.tag or endpoint.path.split("/")[1]


def header_params(endpoint: ApiRoute) -> dict[str, ParameterSpec]:
    """Return every header that a route reads, including the common ones."""
    headers = dict(endpoint.headers)
    if endpoint.allow_impersonation:
        headers["Paddock-As"] = _IMPERSONATE_PARAM
        if endpoint.method == "POST":
            headers["Idempotency-Key"] = _IDEMPOTENCY_PARAM
    return headers


def _parameters(endpoint: ApiRoute) -> Iterator[dict[str, Any]]:
    for name in _PATH_PARAMETER.findall(endpoint.path):
        yield {"name": name, "in": "path", "required": True, "schema": _PATH_PARAM_SCHEMA}
    for location, specs in (("query", endpoint.query), ("header", header_params(endpoint))):
        for name, spec in specs.items():
            parameter = to_parameter_spec(spec)
            described = {"name": name, "in": location, "description": parameter.description, "schema": parameter.schema}
            yield described | ({"required": True} if parameter.required else {})


def _responses(endpoint: ApiRoute, components: SchemaComponents) -> dict[str, Any]:
    responses = _success_responses(endpoint, components)
    for status in map(str, error_statuses_of(endpoint)):
        if endpoint.error_format is PROBLEM_FORMAT and status not in responses:
            responses[status] = {"$ref": f"#/components/responses/{status}"}
            continue
        response = _error_response(int(status), endpoint.error_format, components)
        response["content"] |= responses.get(status, {}).get("content", {})
        responses[status] = response
    return responses


def _success_responses(endpoint: ApiRoute, components: SchemaComponents) -> dict[str, Any]:
    body_type = response_type(endpoint.handler) if endpoint.media_type == JSON else None
    responses: dict[str, Any] = {}
    for status, media_type, description, response_body in (
        ExtraResponse(endpoint.status, endpoint.media_type, endpoint.response_description, body_type),
        *endpoint.extra_responses,
    ):
        response = responses.setdefault(str(status), {"description": description, "content": {}})
        if media_type == JSON:
            response["content"][media_type] = {"schema": components.schema_of(response_body)}
        elif media_type == EVENT_STREAM:
            response["content"][media_type] = {"schema": {**TEXT, "description": description}}
        elif media_type:
            text_or_bytes = str if media_type.startswith("text/") else bytes
            response["content"][media_type] = {"schema": components.schema_of(text_or_bytes)}
    return responses


def _error_response(status: int, error_format: ErrorFormat, components: SchemaComponents) -> dict[str, Any]:
    shu_internal = status == 500 and error_format is SHU_FORMAT
    headers = {"headers": _ERROR_HEADERS[status]} if status in _ERROR_HEADERS else {}
    return {
        "description": _SHU_INTERNAL_ERROR_TEXT if shu_internal else STATUS_TEXT[status],
        **headers,
        "content": {error_format.media_type: {"schema": components.schema_of(error_format.body_type)}},
    }
