"""One row of the API: what is answered where, by whom, and what the published description says of it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, cast

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from paddock.core.call import OPERATOR as THE_OPERATOR
from paddock.core.errors import CallerError, Denied, PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.web.request_headers import request_headers
from paddock.web.routing.body import JSON
from paddock.web.routing.error_formats import ErrorFormat, error_format_at
from paddock.web.routing.schema import BOOLEAN_TEXT, OBJECT, Schema
from paddock.web.routing.validation import ParameterSpec, RequestValidator, to_parameter_spec
from paddock.web.security.authenticate import Caller
from paddock.web.sse import revalidate_stream

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

EVENT_STREAM = "text/event-stream"
NDJSON = "application/x-ndjson"
CSV = "text/csv; charset=utf-8"
_STREAM_MEDIA_TYPES = frozenset({EVENT_STREAM, NDJSON, CSV})
API_PREFIX = "/api/v1"
IMPERSONATE_HEADER = b"paddock-as"  # the header that names who the operator acts as
IDEMPOTENCY_HEADER = b"idempotency-key"  # under which an effect happens once
MAX_NAME_CHARS = 256  # characters; what is longer is nobody's, and errors repeat it
TENANT_PARAM = {"tenant": "Of which tenant (`default`)."}  # see `acting.py`


class Access(Enum):
    """Whom a row of the API answers; whatever it is about is the caller's own tenant's, for all but the first."""

    ANYBODY = "anybody, without a credential"
    MEMBER = "everybody with a credential, of what is theirs"
    OPERATOR = "whoever has the role operator in their tenant"
    HOST = "whoever has the role operator in the tenant default, and so operates this host"
    LOCAL = "the operator on the local socket"

    def allows(self, caller: Caller | None) -> bool:
        """Whether a caller gets an answer."""
        if caller is None or self is Access.ANYBODY:
            return self is Access.ANYBODY
        if self is Access.LOCAL or caller.via == "socket":
            return caller.via == "socket"
        if self is Access.MEMBER:
            return True
        by = caller.principal
        return THE_OPERATOR in by.roles and (self is Access.OPERATOR or by.tenant == DEFAULT_TENANT)


ANYBODY, MEMBER, OPERATOR, HOST, LOCAL = Access

_ACCESS_HINTS = {
    OPERATOR: "a person is an operator by: paddock user role NAME operator, and a key of theirs where it was made with"
    " --role operator",
    HOST: "make a key for it, of an operator in the tenant default: paddock apikey create NAME --role operator",
    LOCAL: "ask on the socket that paddock serve names",
}


class ExtraResponse(NamedTuple):
    """Another good answer of a row."""

    status: int
    media_type: str
    description: str
    schema: Schema = OBJECT


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A verb and a path, with everything the OpenAPI document needs to know."""

    method: str
    path: str  # below the prefix
    handler: Handler
    summary: str
    response_description: str
    query: Mapping[str, str | ParameterSpec] = field(default_factory=dict[str, "str | ParameterSpec"])
    allow_unknown_query: bool = False  # whether others may add parameters of their own, which mean nothing here
    headers: Mapping[str, ParameterSpec] = field(
        default_factory=dict[str, ParameterSpec]
    )  # those that mean something here
    body_description: str = ""  # what the request's body is, where it has one
    request_schema: Schema | None = None  # what it must be; a handler gets it from `body_of`
    response_schema: Schema = field(default_factory=lambda: OBJECT)
    status: int = 200
    media_type: str = JSON  # empty where the answer has no body
    extra_responses: tuple[ExtraResponse, ...] = ()  # other good answers
    error_statuses: tuple[int, ...] = ()  # with which statuses, besides those that `openapi.py` knows of every row
    tag: str = ""  # what it is listed under; the first part of its path where none is given
    prefix: str = API_PREFIX
    allow_impersonation: bool = False  # whether the operator may do it as somebody else; see `acting.py`
    access: Access = MEMBER
    validator: RequestValidator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        query = {name: to_parameter_spec(one) for name, one in self.query.items()}
        object.__setattr__(self, "validator", RequestValidator(query, self.headers, self.request_schema))

    @property
    def error_format(self) -> ErrorFormat:
        """In which its errors are told."""
        return error_format_at(self.prefix + self.path)

    async def __call__(self, request: Request) -> Response:
        """Answer a request that is for this row."""
        if not self.access.allows(request.scope["state"]["caller"]):
            raise Denied(
                f"this is for {self.access.value}",
                code="auth.not_for_you",
                hint=_ACCESS_HINTS.get(self.access, ""),
                details={"who": self.access.name.lower()},
            )
        if not self.allow_impersonation and IMPERSONATE_HEADER in request_headers(request.scope):
            # Whoever names somebody means to have no more than they have; here it would be done as the operator.
            raise CallerError(
                "only calls and readings are made as somebody else",
                code="principal.not_here",
                hint="leave Paddock-As out",
            )
        if not self.allow_unknown_query:
            self.validator.check_query_and_headers(request)
        await self.validator.check_body(request)
        return revalidate_response(self.access, request, await self.handler(request))


def revalidate_response(who: Access, request: Request, response: Response) -> Response:
    """What goes on for long, for as long as its caller would still be answered: a stream outlives what opened it.

    Not that of a call that somebody made: a credential that ends meanwhile takes neither it nor its answer away.
    """
    if not isinstance(response, StreamingResponse):
        return response
    if request.method == "HEAD":
        # Nobody would see what goes on here, and the connection would be held for it.
        alone = Response(status_code=response.status_code)
        alone.raw_headers = response.raw_headers
        return alone
    if response.media_type in _STREAM_MEDIA_TYPES and request.method == "GET":
        response.body_iterator = revalidate_stream(
            cast("AsyncIterable[bytes]", response.body_iterator), lambda: _still_allowed(who, request)
        )
    return response


async def _still_allowed(who: Access, request: Request) -> bool:
    """Whether whoever made a request would be answered now, and as they were; not where nobody can tell.

    Many rows answer everybody, and each with as much as they may see: with other rights it would be another answer.
    """
    try:
        caller: Caller | None = await request.state.proof.authenticate(request.scope)
    except PaddockError:
        return False
    return who.allows(caller) and caller == request.state.caller


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(value, default=str), status, headers, JSON)


def path_param(request: Request, what: str = "name") -> str:
    """A name or an id out of the address."""
    return request.path_params[what][:MAX_NAME_CHARS]


def bool_param(request: Request, name: str) -> bool:
    """Whether a query parameter says yes."""
    return request.query_params.get(name, "") in ("1", "true", "yes")


def bool_param_spec(words: str) -> ParameterSpec:
    """A query parameter that `flag` reads."""
    return ParameterSpec(words, BOOLEAN_TEXT)


def int_param_spec(words: str, default: int, most: int) -> ParameterSpec:
    """A query parameter that `number` reads."""
    return ParameterSpec(words, {"type": "integer", "minimum": 1, "maximum": most, "default": default})


def int_param(request: Request, name: str, default: int) -> int:
    """A query parameter that is a count; what it may be stands in its row."""
    return int(request.query_params.get(name, default))
