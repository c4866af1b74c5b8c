"""Callables that are kept to callers with certain scopes: the host looks, whatever the plugin's code does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.packages import write_file, write_json
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, open_host
from paddock.core.call import CallContext, Principal
from paddock.core.errors import Denied
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, RequestId
from paddock.plugins.manage.enable import enable

SHU = """
class Plugin:
    def requires_permission(self):
        return "notes.delete"

    def execute(self, params, context, host):
        return {"status": "success", "data": {"as": context["permissions"]}}
"""
KERNEL = """
def run(call):
    return {"status": "succeeded", "result": {"as": call["auth_context"]["scopes"]}}
"""


def shu(folder: Path) -> Path:
    about = {"name": "ours", "version": "1.0.0", "entrypoints": {"ours": "ours.plugin:Plugin"}}
    write_json(folder / "manifest.yaml", about)
    write_file(folder / "ours" / "__init__.py", "")
    write_file(folder / "ours" / "plugin.py", SHU)
    return folder


def kernel(folder: Path) -> Path:
    about = {"name": "ours", "type": "operator", "version": "1.0.0", "description": "x", "owner": "us", "effects": []}
    write_json(folder / "manifest.json", about | {"scopes": ["notes.delete"], "idempotent": True})
    write_json(folder / "paddock.yaml", {"paddock": 1, "runtime": {"module": "thing:run"}})
    write_file(folder / "thing.py", KERNEL)
    return folder


def somebody(*scopes: str) -> CallContext:
    somebody = Principal(PrincipalId("user:somebody"), frozenset(scopes), frozenset({"member"}))
    return CallContext(somebody, RequestId("req_1"))


@pytest.mark.parametrize(
    ("package", "inside"),
    [
        pytest.param(shu, "data", marks=pytest.mark.req("S-01", "requires_permission"), id="its code says so"),
        pytest.param(kernel, "result", marks=pytest.mark.req("K-12", "by the host"), id="its manifest says so"),
    ],
)
async def test_only_callers_with_the_scopes_and_whoever_operates_the_host_get_through(
    tmp_path: Path, package: Any, inside: str
) -> None:
    home = Home(tmp_path)
    home.take(package(tmp_path / "package"))
    home.changing(lambda plugins: enable(plugins, "ours"))
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        with pytest.raises(Denied, match=r"kept to callers with notes\.delete") as denied:
            await patiently(host.call("ours", {}, context=somebody("notes.read")))
        allowed = await patiently(host.call("ours", {}, context=somebody("notes.read", "notes.delete")))
        operator = await patiently(host.call("ours", {}))
    assert (denied.value.error_code, denied.value.details["missing"]) == ("permission_denied", ["notes.delete"])
    assert allowed[inside] == {"as": ["notes.delete", "notes.read"]}
    assert operator[inside] == {"as": ["notes.delete"]}


async def test_a_dry_run_is_kept_to_callers_with_the_scopes_too(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.take(kernel(tmp_path / "package"))
    home.changing(lambda plugins: enable(plugins, "ours"))
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        access = host.calls.callable_access
        target = access.catalogue(DEFAULT_TENANT).find_callable("ours", "ours")
        with pytest.raises(Denied, match=r"kept to callers with notes\.delete"):
            await access.dry_run(target, {}, somebody("notes.read"))
        assert (await access.dry_run(target, {}, somebody("notes.delete"))).would == "run"
