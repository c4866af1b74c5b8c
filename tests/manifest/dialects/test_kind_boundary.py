"""Only operators act: what the other kinds must not have, they cannot ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.packages import write_json

from paddock.manifest.capability import parse_capability
from paddock.manifest.model import PluginKind
from paddock.manifest.permissions import limit_to_kind
from paddock.manifest.read import read_package

ACTING = ["net:api.example.com:443", "net:*", "write:fs:/srv/data", "exec:git:/srv/data", "storage:write"]
KEEPING = ["host:storage", "host:cache", "host:cursor", "host:rate", "host:scheduler"]
CHANGING = ["host:memory:full", "host:vault:write"]
ACTIVE = [*ACTING, *KEEPING, *CHANGING]
PASSIVE = ["read:fs:/srv/data", "storage:read", "net:[]", "host:artifacts", "host:memory:reference_only", "host:model"]


@pytest.mark.req("K-01", "an agent has no effect and writes nothing")
@pytest.mark.req("K-01", "a tool writes nothing and reads through the host")
@pytest.mark.req("K-01", "an adapter never writes")
@pytest.mark.parametrize("kind", ["agent", "tool", "adapter"])
@pytest.mark.parametrize("capability", ACTIVE)
def test_a_kind_that_does_not_act_cannot_ask_for_what_acts_or_keeps_something(
    tmp_path: Path, kind: str, capability: str
) -> None:
    about = {"name": "Text.Score", "type": kind, "version": "1.0.0", "description": "x", "owner": "o"}
    write_json(tmp_path / "manifest.json", about)
    write_json(tmp_path / "paddock.yaml", {"paddock": 1, "runtime": {"module": "a:b"}, "capabilities": [capability]})
    errors = read_package(tmp_path).errors
    assert [(error.code, capability in error.message) for error in errors] == [("kind_boundary", True)]


@pytest.mark.req("K-01", "only operators have effects")
def test_an_operator_may_have_all_of_it_and_the_others_what_only_reads() -> None:
    acting, passive = tuple(map(parse_capability, ACTIVE)), tuple(map(parse_capability, PASSIVE))
    assert limit_to_kind(PluginKind.OPERATOR, acting + passive) == acting + passive
    for kind in (PluginKind.AGENT, PluginKind.TOOL, PluginKind.ADAPTER):
        assert limit_to_kind(kind, acting + passive) == passive
