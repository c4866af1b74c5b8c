"""Rows are found by the parts of an address, and rows that stand in each other's way are a mistake of ours."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from paddock.web.routing.route import ApiRoute
from paddock.web.routing.router import Router


async def nothing(request: Request) -> Response:
    del request
    return Response()


def row(path: str, method: str = "GET") -> ApiRoute:
    return ApiRoute(method, path, nothing, "", "", prefix="")


ROWS = (
    row("/plugins"),
    row("/plugins/active"),
    row("/plugins/{name}"),
    row("/plugins/{name}/enable", "POST"),
    row("/plugins/{name}/call/{method:path}", "POST"),
    row("/plugins/active/call/odd", "POST"),
)


def asked(path: str, method: str = "GET") -> tuple[str, dict[str, str]]:
    scope: dict[str, Any] = {"method": method, "path": path}
    found = Router(ROWS).find_route(scope)
    return found.path, scope["path_params"]


@pytest.mark.parametrize(
    ("path", "method", "found", "params"),
    [
        ("/plugins", "GET", "/plugins", {}),
        ("/plugins", "HEAD", "/plugins", {}),
        ("/plugins/active", "GET", "/plugins/active", {}),
        ("/plugins/notes", "GET", "/plugins/{name}", {"name": "notes"}),
        ("/plugins/active/enable", "POST", "/plugins/{name}/enable", {"name": "active"}),
        ("/plugins/a/call/b/c", "POST", "/plugins/{name}/call/{method:path}", {"name": "a", "method": "b/c"}),
        ("/plugins/a/call/", "POST", "/plugins/{name}/call/{method:path}", {"name": "a", "method": ""}),
        ("/plugins/active/call/odd", "POST", "/plugins/active/call/odd", {}),
    ],
)
def test_a_word_comes_before_any_part_and_that_before_all_that_is_left(
    path: str, method: str, found: str, params: dict[str, str]
) -> None:
    assert asked(path, method) == (found, params)


@pytest.mark.parametrize("path", ["", "/", "//plugins", "/plugins/", "/plugins//enable", "/plugins/a/b", "/Plugins"])
def test_nothing_else_is_there(path: str) -> None:
    with pytest.raises(HTTPException) as refused:
        asked(path)
    assert refused.value.status_code == 404


def test_a_verb_that_is_not_for_an_address_is_told_those_that_are() -> None:
    with pytest.raises(HTTPException) as refused:
        asked("/plugins/active", "PUT")
    assert refused.value.status_code == 405
    assert refused.value.headers == {"Allow": "GET, HEAD"}


@pytest.mark.parametrize("other", [row("/plugins/{id}"), row("/plugins"), row("/plugins/{name}/call/{what:path}")])
def test_rows_that_stand_in_each_others_way_are_refused(other: ApiRoute) -> None:
    with pytest.raises(ValueError, match=r"twice|stands where"):
        Router((*ROWS, other))
