"""What a request may say, checked before a handler sees it: every mistake of query and headers, or of the body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import CompiledSchema, compile_trusted
from paddock.web.request_headers import request_headers
from paddock.web.routing.body import read_json_object
from paddock.web.routing.schema import TEXT, Schema

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter of a query, or a header: what it does, and what it may be."""

    description: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False


def to_parameter_spec(given: str | ParameterSpec) -> ParameterSpec:
    """A parameter that is only described takes any text."""
    return ParameterSpec(given) if isinstance(given, str) else given


class RequestValidator:
    """The checks of one row of the API. Schemas are compiled once.

    Args:
        query: The parameters that may stand in the address. Others are mistakes: `?tenent=acme` must not be taken for
            a request about the default tenant.
        headers: Those that mean something here; all others are somebody else's business.
        takes: What the body must be; None where none is read.
    """

    def __init__(
        self, query: Mapping[str, ParameterSpec], headers: Mapping[str, ParameterSpec], takes: Schema | None
    ) -> None:
        self._query = _ParamSet(query)
        self._headers = _ParamSet({name.lower(): one for name, one in headers.items()})
        self._header_names = dict.fromkeys(name.encode() for name in self._headers.specs)
        self._takes_body = takes is not None
        # Any object at all is what the body is read as.
        told = takes is not None and takes.keys() - {"type", "description", "examples"}
        self._body = compile_trusted(dict(takes)) if takes is not None and told else None

    def check_query_and_headers(self, request: Request) -> None:
        """Check the query, and the headers that mean something here.

        Raises:
            Invalid: with every mistake of both.
        """
        problems: list[Problem] = []
        if request.scope["query_string"] or self._query.has_required:
            problems += self._query.find_problems(request.query_params.multi_items(), "")
        head = request_headers(request.scope)
        if self._headers.has_required or not self._header_names.keys().isdisjoint(head):
            given = [(name.decode(), head[name].decode("latin-1")) for name in self._header_names if name in head]
            problems += self._headers.find_problems(given, "header ")
        if problems:
            raise Invalid("the request is not valid", problems[:_MAX_PROBLEMS], code="invalid_params")

    async def check_body(self, request: Request) -> None:
        """Read the body, where one is taken, and keep it for `body_of`.

        Raises:
            BodyTooLarge: see `json_object`.
            Invalid: it is no JSON object, or not what is taken here; with every mistake.
        """
        if not self._takes_body:
            return
        read = await read_json_object(request)
        if self._body is not None and not self._body.is_valid_without_depth_check(read):
            raise Invalid("the body is not valid", self._body.errors(read), code="invalid_params")
        request.scope["state"]["body"] = read


class _ParamSet:
    """Named texts against their schemas."""

    def __init__(self, known: Mapping[str, ParameterSpec]) -> None:
        self.specs = known
        self.has_required = any(one.required for one in known.values())
        self._numbers = {name for name, one in known.items() if one.schema.get("type") == "integer"}
        self._compiled: CompiledSchema = compile_trusted(
            {
                "type": "object",
                "properties": {name: dict(one.schema) for name, one in known.items()},
                "required": [name for name, one in known.items() if one.required],
                "additionalProperties": False,
            }
        )

    def find_problems(self, given: list[tuple[str, str]], where: str) -> list[Problem]:
        found: dict[str, Any] = {}
        problems: list[Problem] = []
        for name, text in given:
            if name in found:
                problems.append(Problem(printable(name, 100), "is given more than once", "give it once", "duplicate"))
            if not text.isprintable():  # databases keep no NUL, and nothing that is looked for has a line break
                problems.append(Problem(printable(name, 100), "holds what does not print", "leave that out", "text"))
            found[name] = int(text) if name in self._numbers and _WHOLE_NUMBER.fullmatch(text) else text
        problems += self._compiled.errors(found)
        return [Problem(where + one.path, one.message, one.hint, one.code) for one in problems] if where else problems


def validated_body(request: Request) -> dict[str, Any]:
    """The body as it was checked."""
    return request.scope["state"]["body"]


AFTER_PARAM = ParameterSpec("Go on after the event with this id.", {"type": "integer", "minimum": 0})
