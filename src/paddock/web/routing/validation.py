"""Request validation before a handler runs: all problems of query and headers, or of the body, are reported at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace
from starlette.requests import Request

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import CompiledSchema, compile_trusted
from paddock.web.request_headers import request_headers
from paddock.web.routing.body import read_json_object
from paddock.web.routing.schema_from_types import Schema

# Schemas of query parameters and headers.
TEXT: Schema = {"type": "string"}
NON_NEGATIVE_INT: Schema = {"type": "integer", "minimum": 0}
BOOLEAN_TEXT: Schema = {"type": "string", "enum": ["1", "true", "yes", "0", "false", "no"]}

_Body = TypeVar("_Body")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_MAX_PROBLEMS = 100


class ParameterSpec(Struct, frozen=True):
    """A query parameter or header: description and schema."""

    description: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False


def to_parameter_spec(spec: str | ParameterSpec) -> ParameterSpec:
    """Turn a plain description into a spec that accepts any text."""
    return ParameterSpec(spec) if isinstance(spec, str) else spec


class RequestValidator:
    """Validates the requests of one route. Schemas are compiled once, by the first request: a command makes few.

    Args:
        query: The allowed query parameters. Others are errors: `?tenent=acme` must not be taken for a request about
            the default tenant.
        headers: The headers that the handler reads; all others are ignored.
        request_schema: The schema of the body; None if none is read.
    """

    def __init__(
        self, query: Mapping[str, ParameterSpec], headers: Mapping[str, ParameterSpec], request_schema: Schema | None
    ) -> None:
        self._query = _ParamSet(query)
        self._headers = _ParamSet({name.lower(): spec for name, spec in headers.items()})
        self._header_names = dict.fromkeys(name.encode() for name in self._headers.specs)
        self._request_schema = request_schema

    @cached_property
    def _body(self) -> CompiledSchema | None:
        schema = self._request_schema
        # A schema without constraints needs no check: the body is parsed as an object anyway.
        constrained = schema is not None and schema.keys() - {"type", "description", "examples"}
        return compile_trusted(dict(schema)) if schema is not None and constrained else None

    def check_query_and_headers(self, request: Request) -> None:
        """Validate the query and the known headers.

        Raises:
            Invalid: with every problem of both.
        """
        problems: list[Problem] = []
        if request.scope["query_string"] or self._query.has_required:
            problems += self._query.find_problems(request.query_params.multi_items(), "")
        headers = request_headers(request.scope)
        if self._headers.has_required or not self._header_names.keys().isdisjoint(headers):
            values = [
                (name.decode(), headers[name].decode("latin-1")) for name in self._header_names if name in headers
            ]
            problems += self._headers.find_problems(values, "header ")
        if problems:
            raise Invalid("the request is not valid", problems[:_MAX_PROBLEMS], code="invalid_params")

    async def check_body(self, request: Request) -> None:
        """Read and validate the body, if the route takes one, and store it for `validated_body`.

        Raises:
            BodyTooLarge: see `read_json_object`.
            Invalid: it is not a JSON object or does not match the schema; with every problem.
        """
        if self._request_schema is None:
            return
        body = await read_json_object(request)
        if self._body is not None and not self._body.is_valid_without_depth_check(body):
            raise Invalid("the body is not valid", self._body.errors(body), code="invalid_params")
        request.scope["state"]["body"] = body


class _ParamSet:
    """Validates named text values against their specs."""

    def __init__(self, specs: Mapping[str, ParameterSpec]) -> None:
        self.specs = specs
        self.has_required = any(spec.required for spec in specs.values())
        self._numbers = {name for name, spec in specs.items() if spec.schema.get("type") == "integer"}

    @cached_property
    def _compiled(self) -> CompiledSchema:
        return compile_trusted(
            {
                "type": "object",
                "properties": {name: dict(spec.schema) for name, spec in self.specs.items()},
                "required": [name for name, spec in self.specs.items() if spec.required],
                "additionalProperties": False,
            }
        )

    def find_problems(self, pairs: list[tuple[str, str]], path_prefix: str) -> list[Problem]:
        values: dict[str, Any] = {}
        problems: list[Problem] = []
        for name, text in pairs:
            if name in values:
                problems.append(Problem(printable(name, 100), "is given more than once", "give it once", "duplicate"))
            if not text.isprintable():  # databases cannot store NUL, and no name has a line break
                problems.append(
                    Problem(printable(name, 100), "contains non-printable characters", "leave that out", "text")
                )
            values[name] = int(text) if name in self._numbers and _WHOLE_NUMBER.fullmatch(text) else text
        problems += self._compiled.errors(values)
        return [replace(problem, path=path_prefix + problem.path) for problem in problems]


def reject_problems(problems: Sequence[Problem]) -> None:
    """Reject a body that matches its schema and has these problems nevertheless, such as malformed names.

    Raises:
        Invalid: with every problem, if there is one.
    """
    if problems:
        raise Invalid("the body is not valid", problems[:_MAX_PROBLEMS], code="invalid_params")


def validated_body(request: Request, body_type: type[_Body]) -> _Body:
    """Return the body that `RequestValidator.check_body` has stored, as the type of the route's `request_body`."""
    del body_type
    return request.scope["state"]["body"]


AFTER_PARAM = ParameterSpec("Go on after the event with this id.", NON_NEGATIVE_INT)
