"""The frames that an error can be answered in: ours, and those of the documents whose routes we serve."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from paddock.core.errors import PaddockError
from paddock.core.outward import mcp_error, osqr_plugin_error, problem_body, shu_envelope

MEDIA_TYPE = "application/problem+json"


class Frame(NamedTuple):
    """How a route tells of errors. `schema` is what the published description calls it."""

    schema: str
    media: str
    body: Callable[[PaddockError, str], dict[str, Any]]


def full_problem(error: PaddockError, error_id: str) -> dict[str, Any]:
    """The problem body, with the parts that our own command line makes the same error from again."""
    return problem_body(error, error_id) | {
        "message": error.message,
        "hint": error.hint,
        "category": error.category.value,
        "retryable": error.retryable,
        "details": dict(error.details),
    }


def _with_shu_envelope(error: PaddockError, error_id: str) -> dict[str, Any]:
    """Both at once, since neither has a member of the other's name: who knows only one of them reads that."""
    return full_problem(error, error_id) | shu_envelope(error, error_id)


def _plugin_error(error: PaddockError, error_id: str) -> dict[str, Any]:
    del error_id  # OSQR's frame has no place for it; the log has it with the code
    return osqr_plugin_error(error)


def _error_of_a_message(error: PaddockError, error_id: str) -> dict[str, Any]:
    """As MCP clients read it: of a refusal in any other form they show people nothing but that there was one."""
    told = mcp_error(error)
    detail = problem_body(error, error_id)["detail"]
    return {
        "jsonrpc": "2.0",
        "id": None,
        "error": told | {"message": detail, "data": told["data"] | {"error_id": error_id}},
    }


PROBLEM = Frame("Problem", MEDIA_TYPE, full_problem)
SHU = Frame("ShuProblem", MEDIA_TYPE, _with_shu_envelope)
OSQR = Frame("PluginError", "application/json", _plugin_error)
MCP = Frame("JSONRPCError", "application/json", _error_of_a_message)

_OF_OSQR = "/api/plugins/"
_OF_PROGRAMS = ("/api/", "/metrics", "/healthz", "/readyz", "/.well-known/")
_OF_MCP = re.compile(r"/mcp(/.*)?")
_OF_SHU = re.compile(r"/api/v1/plugins/[^/]*/execute")


def is_for_people(path: str) -> bool:
    """Whether pages are at an address, and whoever looks there with a browser is shown one."""
    return not path.startswith(_OF_PROGRAMS) and frame_at(path) is PROBLEM


def frame_at(path: str) -> Frame:
    """The frame of an address: also of what is refused there before any row answers."""
    if path.startswith(_OF_OSQR):
        return OSQR
    if _OF_MCP.fullmatch(path):
        return MCP
    return SHU if _OF_SHU.fullmatch(path) else PROBLEM
