"""Scopes on their way to a plugin: the host tells what the callable is kept to, and both SDKs look once more."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fixtures.packages import write_file, write_json
from tests.runtime.stage import Stage, patiently
from tests.runtimes.test_python_code import kernel
from tests.sdk_typescript.node import BUILT_SDK, EXAMPLE, needs_node

from paddock.core.call import OPERATOR, CallContext, Principal
from paddock.core.errors import PluginError
from paddock.core.ids import DEFAULT_TENANT, Digest, PluginName, PrincipalId, RequestId
from paddock.manifest.model import Manifest
from paddock.manifest.read import read_package
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.protocols.native.adapter import NativeAdapter
from paddock.runtime.protocols.python.adapter import PythonAdapter

ANN = Principal(PrincipalId("user:ann"), frozenset({"mail:send", "money"}))
BOB = Principal(PrincipalId("user:bob"), frozenset({"money"}))
OPERATES = Principal(PrincipalId("local:eve"), roles=frozenset({OPERATOR}))


async def no_answer(asking: object, method: str, params: Mapping[str, Any]) -> Any: ...


def told(manifest: Manifest, wire: type[NativeAdapter], who: Principal, *needed: str) -> Any:
    """The context that goes over the wire with a call of somebody, to a callable that is kept to these scopes."""
    key = InstanceKey(DEFAULT_TENANT, PluginName(manifest.name), Digest("sha256:0"))
    spec = replace(manifest.callables[0], required_scopes=needed)
    context = CallContext(who, RequestId("r1"))
    speaking = wire(Deployment(key, manifest, ()), no_answer)
    return speaking.build_call(spec, {}, context, "", listens=False).params["_context"]


@pytest.mark.parametrize("wire", [NativeAdapter, PythonAdapter])
def test_a_plugin_is_told_of_the_scopes_that_its_callable_is_kept_to_and_of_no_others(
    wire: type[NativeAdapter],
) -> None:
    ours = read_package(EXAMPLE).single()

    assert told(ours, wire, ANN, "mail:send", "mail:read")["scopes"] == ["mail:send"]
    assert told(ours, wire, BOB, "mail:send")["scopes"] == []
    assert told(ours, wire, OPERATES, "mail:send")["scopes"] == ["mail:send"], "who operates the host has every scope"
    assert "scopes" not in told(ours, wire, ANN), "one that is kept to none is told of none"


def test_a_context_that_a_document_fixes_stays_as_it_is(tmp_path: Path) -> None:
    kaged = read_package(EXAMPLE.parent / "memory-markdown").single()
    kernels = read_package(kernel(tmp_path, "operator", "def run(call): ...")).single()
    for manifest, wire in ((kaged, NativeAdapter), (kernels, PythonAdapter)):
        assert "scopes" not in told(manifest, wire, ANN, "mail:send")


PYTHON = """
from paddock_sdk import Plugin, requires_scopes
plugin = Plugin("actor", "1.0.0")
@plugin.tool
@requires_scopes("mail:send")
def send(to: str):
    return {"sent": to}
plugin.run()
"""
TYPESCRIPT = """
import { createPlugin, requiresScopes } from "./paddock-sdk/index.js";
const plugin = createPlugin({ name: "actor", version: "1.0.0" });
plugin.tool("send", requiresScopes(["mail:send"], ({ to }) => ({ sent: to })));
plugin.start();
"""
SEND = {"name": "send", "effects": ["external_send"], "required_scopes": ["mail:send"]}


@pytest.mark.req("K-12", "in the SDK")
@pytest.mark.parametrize(
    ("command", "program"),
    [(["python3", "main.py"], PYTHON), pytest.param(["node", "main.mjs"], TYPESCRIPT, marks=needs_node)],
    ids=["python", "typescript"],
)
async def test_a_caged_plugin_refuses_a_caller_whom_the_host_should_not_have_let_through(
    stage: Stage, command: list[str], program: str
) -> None:
    root = stage.folder / "plugin-actor"
    about = {"paddock": 1, "name": "actor", "version": "1.0.0", "description": "An actor", "tools": [SEND]}
    write_json(root / "paddock.yaml", {**about, "capabilities": [], "runtime": {"command": command}})
    write_file(root / command[-1], program)
    shutil.copytree(BUILT_SDK, root / "paddock-sdk")
    actor = stage.deploy(root)

    # The supervisor looks at no scopes: the gate before it does.
    assert await actor.call("send", stage.context(principal=ANN), to="you") == {"sent": "you"}
    with pytest.raises(PluginError, match="the caller lacks mail:send") as refused:
        await patiently(actor.call("send", stage.context(principal=BOB), to="you"))
    assert refused.value.details["data"] == {
        "code": "PERMISSION_DENIED",
        "missing_scopes": ["mail:send"],
        "no_effect": True,
    }
