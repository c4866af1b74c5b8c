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
from paddock.http.auth import Caller
from paddock.http.body import JSON
from paddock.http.checking import Checks, Parameter, as_parameter
from paddock.http.frames import Frame, frame_at
from paddock.http.head import head_of
from paddock.http.live import while_let
from paddock.http.schemas.building import FLAG, OBJECT, Schema

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

EVENTS = "text/event-stream"
JSON_LINES = "application/x-ndjson"
CSV = "text/csv; charset=utf-8"
_FOLLOWED = frozenset({EVENTS, JSON_LINES, CSV})
PREFIX = "/api/v1"
AS = b"paddock-as"  # the header that names who the operator acts as
KEY = b"idempotency-key"  # under which an effect happens once
LONGEST_NAME = 256  # characters; what is longer is nobody's, and errors repeat it
WHOSE = {"tenant": "Of which tenant (`default`)."}  # see `acting.py`


class Who(Enum):
    """Whom a row of the API answers; whatever it is about is the caller's own tenant's, for all but the first."""

    ANYBODY = "anybody, without a credential"
    MEMBER = "everybody with a credential, of what is theirs"
    OPERATOR = "whoever has the role operator in their tenant"
    HOST = "whoever has the role operator in the tenant default, and so operates this host"
    LOCAL = "the operator on the local socket"

    def lets(self, caller: Caller | None) -> bool:
        """Whether a caller gets an answer."""
        if caller is None or self is Who.ANYBODY:
            return self is Who.ANYBODY
        if self is Who.LOCAL or caller.via == "socket":
            return caller.via == "socket"
        if self is Who.MEMBER:
            return True
        by = caller.principal
        return THE_OPERATOR in by.roles and (self is Who.OPERATOR or by.tenant == DEFAULT_TENANT)


ANYBODY, MEMBER, OPERATOR, HOST, LOCAL = Who

_ASK_AS = {
    OPERATOR: "a person is an operator by: paddock user role NAME operator, and a key of theirs where it was made with"
    " --role operator",
    HOST: "make a key for it, of an operator in the tenant default: paddock apikey create NAME --role operator",
    LOCAL: "ask on the socket that paddock serve names",
}


class Also(NamedTuple):
    """Another good answer of a row."""

    status: int
    media: str
    words: str
    schema: Schema = OBJECT


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A verb and a path, with everything the OpenAPI document needs to know."""

    method: str
    path: str  # below the prefix
    handler: Handler
    summary: str
    answer: str
    query: Mapping[str, str | Parameter] = field(default_factory=dict[str, "str | Parameter"])
    any_query: bool = False  # whether others may add parameters of their own, which mean nothing here
    headers: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])  # those that mean something here
    body: str = ""  # what the request's body is, where it has one
    takes: Schema | None = None  # what it must be; a handler gets it from `body_of`
    gives: Schema = field(default_factory=lambda: OBJECT)
    status: int = 200
    media: str = JSON  # empty where the answer has no body
    also: tuple[Also, ...] = ()  # other good answers
    fails: tuple[int, ...] = ()  # with which statuses, besides those that `openapi.py` knows of every row
    tag: str = ""  # what it is listed under; the first part of its path where none is given
    prefix: str = PREFIX
    for_others: bool = False  # whether the operator may do it as somebody else; see `acting.py`
    who: Who = MEMBER
    checks: Checks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        query = {name: as_parameter(one) for name, one in self.query.items()}
        object.__setattr__(self, "checks", Checks(query, self.headers, self.takes))

    @property
    def frame(self) -> Frame:
        """In which its errors are told."""
        return frame_at(self.prefix + self.path)

    async def __call__(self, request: Request) -> Response:
        """Answer a request that is for this row."""
        if not self.who.lets(request.scope["state"]["caller"]):
            raise Denied(
                f"this is for {self.who.value}",
                code="auth.not_for_you",
                hint=_ASK_AS.get(self.who, ""),
                details={"who": self.who.name.lower()},
            )
        if not self.for_others and AS in head_of(request.scope):
            # Whoever names somebody means to have no more than they have; here it would be done as the operator.
            raise CallerError(
                "only calls and readings are made as somebody else",
                code="principal.not_here",
                hint="leave Paddock-As out",
            )
        if not self.any_query:
            self.checks.address(request)
        await self.checks.body(request)
        return held_to(self.who, request, await self.handler(request))


def held_to(who: Who, request: Request, response: Response) -> Response:
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
    if response.media_type in _FOLLOWED and request.method == "GET":
        response.body_iterator = while_let(
            cast("AsyncIterable[bytes]", response.body_iterator), lambda: _still_lets(who, request)
        )
    return response


async def _still_lets(who: Who, request: Request) -> bool:
    """Whether whoever made a request would be answered now, and as they were; not where nobody can tell.

    Many rows answer everybody, and each with as much as they may see: with other rights it would be another answer.
    """
    try:
        caller: Caller | None = await request.state.proof.caller(request.scope)
    except PaddockError:
        return False
    return who.lets(caller) and caller == request.state.caller


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(value, default=str), status, headers, JSON)


def named(request: Request, what: str = "name") -> str:
    """A name or an id out of the address."""
    return request.path_params[what][:LONGEST_NAME]


def flag(request: Request, name: str) -> bool:
    """Whether a query parameter says yes."""
    return request.query_params.get(name, "") in ("1", "true", "yes")


def yes_or_no(words: str) -> Parameter:
    """A query parameter that `flag` reads."""
    return Parameter(words, FLAG)


def count_of(words: str, default: int, most: int) -> Parameter:
    """A query parameter that `number` reads."""
    return Parameter(words, {"type": "integer", "minimum": 1, "maximum": most, "default": default})


def number(request: Request, name: str, default: int) -> int:
    """A query parameter that is a count; what it may be stands in its row."""
    return int(request.query_params.get(name, default))
