"""API routes: method, path, access level, handler, and everything that the OpenAPI document needs."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from enum import Enum
from functools import cached_property
from types import UnionType
from typing import (
    Any,
    Generic,
    NamedTuple,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import orjson
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from paddock.core.action import Action
from paddock.core.call import OPERATOR as THE_OPERATOR
from paddock.core.errors import CallerError, Denied, PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.web.request_headers import request_headers
from paddock.web.routing.body import JSON
from paddock.web.routing.error_formats import ErrorFormat, error_format_at
from paddock.web.routing.schema_from_types import Schema, body_schema
from paddock.web.routing.validation import BOOLEAN_TEXT, ParameterSpec, RequestValidator, to_parameter_spec
from paddock.web.security.authenticate import Caller
from paddock.web.sse import revalidate_stream

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

EVENT_STREAM = "text/event-stream"
NDJSON = "application/x-ndjson"
CSV = "text/csv; charset=utf-8"
_STREAM_MEDIA_TYPES = frozenset({EVENT_STREAM, NDJSON, CSV})
API_PREFIX = "/api/v1"
IMPERSONATE_HEADER = b"paddock-as"  # names the principal that the operator acts as
IDEMPOTENCY_HEADER = b"idempotency-key"  # an effect happens once per key
MAX_NAME_CHARS = 256  # no name is longer, and errors repeat it
TENANT_PARAM = {"tenant": "Of which tenant (`default`)."}  # see `request_context.py`


class Access(Enum):
    """The callers that a route serves.

    All levels but PUBLIC are limited to records of the caller's own tenant.
    """

    PUBLIC = "all callers, without a credential"
    MEMBER = "everybody with a credential, of what is theirs"
    OPERATOR = "callers with the role operator in their tenant"
    HOST = "operators of this host: callers with the role operator in the tenant default"
    LOCAL = "the operator on the local socket"

    def allows(self, caller: Caller | None) -> bool:
        """Return whether a caller may use the route."""
        if caller is None or self is Access.PUBLIC:
            return self is Access.PUBLIC
        if self is Access.LOCAL or caller.via == "socket":
            return caller.via == "socket"
        if self is Access.MEMBER:
            return True
        principal = caller.principal
        return THE_OPERATOR in principal.roles and (self is Access.OPERATOR or principal.tenant == DEFAULT_TENANT)


PUBLIC, MEMBER, OPERATOR, HOST, LOCAL = Access

_ACCESS_HINTS = {
    OPERATOR: "a person needs the role operator, and an API key of theirs has to be created with it",
    HOST: "use an API key of an operator in the tenant default",
    LOCAL: "send the request to the daemon's Unix socket",
}
_PERSON_HINT = "no API key is enough: such an operator signs in at the console, or uses the daemon's Unix socket"
_ACCESS_ACTIONS = {
    OPERATOR: Action.of("user.role.add", role="operator"),
    HOST: Action.of("apikey.add", role="operator"),
}


_Value_co = TypeVar("_Value_co", covariant=True)
_Body = TypeVar("_Body")


class JsonResponse(Response, Generic[_Value_co]):
    """A response with a JSON value. A handler's return type `JsonResponse[X]` is the schema of what it answers."""

    def __init__(self, value: _Value_co, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(orjson.dumps(value, default=str), status, headers, JSON)


class ExtraResponse(NamedTuple):
    """An additional response of a route; `body_type` describes one in JSON."""

    status: int
    media_type: str
    description: str
    body_type: Any = dict[str, Any]


class RequestBody(Struct, Generic[_Body], frozen=True):
    """The JSON object that a route takes: a TypedDict, or any object. Its handler calls `validated_body`."""

    body_type: type[_Body]
    example: _Body
    description: str = ""


class EmptyBody(TypedDict):
    """An empty object, or no body at all."""


EMPTY_BODY = RequestBody(EmptyBody, {})


@dataclasses.dataclass(frozen=True)
class ApiRoute:
    """One route of the API, with everything that the OpenAPI document needs.

    Its schema is made when it is first asked for: a command without a daemon uses few of the routes.
    """

    method: str
    path: str  # below the prefix
    handler: Handler
    summary: str
    response_description: str
    query: Mapping[str, str | ParameterSpec] = dataclasses.field(default_factory=dict[str, "str | ParameterSpec"])
    allow_unknown_query: bool = False  # whether unknown parameters are ignored
    headers: Mapping[str, ParameterSpec] = dataclasses.field(
        default_factory=dict[str, ParameterSpec]
    )  # those the handler reads
    request_body: RequestBody[Any] | None = None  # validated before the handler runs
    status: int = 200
    media_type: str = JSON  # empty if the response has no body
    extra_responses: tuple[ExtraResponse, ...] = ()  # other success responses
    error_statuses: tuple[int, ...] = ()  # beside those common to all routes, see `openapi.py`
    tag: str = ""  # defaults to the first segment of the path
    prefix: str = API_PREFIX
    allow_impersonation: bool = False  # see `request_context.py`
    access: Access = MEMBER
    needs_person: bool = False  # whether the handler refuses API keys; the first error says so already

    @cached_property
    def request_schema(self) -> Schema | None:
        """The schema of the body that it takes."""
        body = self.request_body
        return body and body_schema(body.body_type, body.example)

    @cached_property
    def validator(self) -> RequestValidator:
        query = {name: to_parameter_spec(spec) for name, spec in self.query.items()}
        return RequestValidator(query, self.headers, self.request_schema)

    @property
    def error_format(self) -> ErrorFormat:
        """The format of this route's errors."""
        return error_format_at(self.prefix + self.path)

    async def __call__(self, request: Request) -> Response:
        """Check access and validate the request, then run the handler."""
        if not self.access.allows(request.scope["state"]["caller"]):
            raise Denied(
                f"this is for {self.access.value}",
                code="auth.not_for_you",
                hint=_PERSON_HINT if self.needs_person else _ACCESS_HINTS.get(self.access, ""),
                action=None if self.needs_person else _ACCESS_ACTIONS.get(self.access),
                details={"who": self.access.name.lower()},
            )
        if not self.allow_impersonation and IMPERSONATE_HEADER in request_headers(request.scope):
            # Impersonation is meant to reduce rights; ignoring the header would run this with the operator's rights.
            raise CallerError(
                "only calls and reads can be made as another principal",
                code="principal.not_here",
                hint="leave Paddock-As out",
            )
        if not self.allow_unknown_query:
            self.validator.check_query_and_headers(request)
        await self.validator.check_body(request)
        return revalidate_response(self.access, request, await self.handler(request))


def revalidate_response(access: Access, request: Request, response: Response) -> Response:
    """Wrap a stream so that it ends once its caller loses access; a stream outlives the check that opened it.

    The stream of a call that was just made (not a GET) is exempt: revoking a credential stops neither call nor result.
    """
    if not isinstance(response, StreamingResponse):
        return response
    if request.method == "HEAD":
        # Do not run the stream: the client would not see it, and the connection would be held open.
        head_response = Response(status_code=response.status_code)
        head_response.raw_headers = response.raw_headers
        return head_response
    if response.media_type in _STREAM_MEDIA_TYPES and request.method == "GET":
        response.body_iterator = revalidate_stream(
            cast("AsyncIterable[bytes]", response.body_iterator),
            lambda: _still_allowed(access, request),
            request.state.proof.rights_revision,
        )
    return response


async def _still_allowed(access: Access, request: Request) -> bool:
    """Return whether the caller would be served now with the same rights; False if that cannot be determined.

    Many routes serve all callers but filter by their rights, so changed rights would mean a different response.
    """
    try:
        caller: Caller | None = await request.state.proof.authenticate(request.scope)
    except PaddockError:
        return False
    return access.allows(caller) and caller == request.state.caller


def response_type(handler: Handler) -> Any:
    """Return X of a handler that returns `JsonResponse[X]`, or that among others.

    Raises:
        TypeError: its return type does not say what it answers.
    """
    returned = get_type_hints(handler, include_extras=True)["return"]
    for choice in get_args(returned) if get_origin(returned) in (Union, UnionType) else (returned,):
        if get_origin(choice) is JsonResponse:
            return get_args(choice)[0]
    raise TypeError(f"{handler.__qualname__} answers JSON: its return type must be JsonResponse[...]")


def path_param(request: Request, name: str = "name") -> str:
    """Return a path parameter, cut to the maximum name length."""
    return request.path_params[name][:MAX_NAME_CHARS]


def bool_param(request: Request, name: str) -> bool:
    """Return whether a query parameter is true."""
    return request.query_params.get(name, "") in ("1", "true", "yes")


def bool_param_spec(description: str) -> ParameterSpec:
    """Describe a query parameter for `bool_param`."""
    return ParameterSpec(description, BOOLEAN_TEXT)


def int_param_spec(description: str, default: int, maximum: int) -> ParameterSpec:
    """Describe a query parameter for `int_param`."""
    return ParameterSpec(description, {"type": "integer", "minimum": 1, "maximum": maximum, "default": default})


def int_param(request: Request, name: str, default: int) -> int:
    """Return an integer query parameter; its spec has been validated."""
    return int(request.query_params.get(name, default))
