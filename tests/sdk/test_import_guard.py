"""Imports that a plugin may not make, refused by the hook alone: nothing here runs in a cage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import ROOT
from tests.sdk.test_worker_loading import why
from tests.sdk.workers import kernel, shu, working, write

TABLE = json.loads((ROOT / "src/paddock_sdk/worker/refused_imports.json").read_text())

TRYING = """
class Plugin:
    def execute(self, params, context, host):
        try:
            exec(compile(params["code"], __file__, "exec"), {"__name__": "plug", "__file__": __file__})
        except ImportError as error:
            return str(error)
        return "imported"
"""


def tried(plugin: Any, code: str) -> str:
    return plugin.call({"code": code})["data"]


@pytest.mark.req("S-20", "when running")
def test_every_refused_name_is_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    with shu(tmp_path, TRYING) as plugin:
        for group in TABLE.values():
            for name in group["names"]:
                assert tried(plugin, f"import {name}") == f"a plugin may not import {name}: {group['reason']}"


@pytest.mark.req("S-20", "when running")
@pytest.mark.parametrize(
    "code",
    [
        "import requests.adapters",
        "from requests import get",
        "from urllib import request",
        "from urllib import parse, request",
        "from http import client",
        "import urllib.request as u",
        "import shu.core.models",
        "from paddock.core import errors",
        "__import__('httpx')",
        "import importlib; importlib.import_module('urllib.request')",
        # Already loaded by somebody else: it is still refused to the plugin.
        "import xmlrpc.server, http.client",
        "import http.server\nimport http.client",
        "import http.server\nfrom http import client",
    ],
)
def test_no_form_of_an_import_gets_around_it(tmp_path: Path, code: str) -> None:
    with shu(tmp_path, TRYING) as plugin:
        assert "a plugin may not import" in tried(plugin, code)


@pytest.mark.parametrize(
    "code",
    [
        "import urllib.parse, http, http.cookies, json, html.parser, ssl, socket",
        "import http.server",  # which needs http.client for itself
        "import logging.handlers, pydoc",
        "import paddock_sdk; from paddock_sdk import CapabilityDenied",
    ],
)
def test_the_rest_of_the_standard_library_still_loads_whatever_it_needs_itself(tmp_path: Path, code: str) -> None:
    with shu(tmp_path, TRYING) as plugin:
        assert tried(plugin, code) == "imported"


def test_a_plugin_that_imports_one_at_its_top_does_not_start_and_its_log_names_the_line(tmp_path: Path) -> None:
    told = why(tmp_path, {"plug.py": "\n\nimport httpx\n"})
    assert told.endswith(
        "plug.py, line 3: a plugin may not import httpx: the network is reached through host.http, which checks and "
        "records each call"
    ), told


def test_a_vendored_library_is_held_to_the_same(tmp_path: Path) -> None:
    files = {"vendor/requests/__init__.py": "", "vendor/nice/__init__.py": "import urllib.request"}
    assert "may not import requests" in why(write(tmp_path, files), {"plug.py": "import requests"})
    assert "vendor/nice/__init__.py, line 1" in why(tmp_path, {"plug.py": "import nice"})


def test_a_plugin_that_can_do_without_catches_an_ordinary_import_error(tmp_path: Path) -> None:
    code = """
    try:
        import requests
    except ImportError:
        requests = None
    class Plugin:
        def execute(self, params, context, host):
            return requests
    """
    with shu(tmp_path, code) as plugin:
        assert plugin.call()["data"] is None


@pytest.mark.req("S-20", "when running")
def test_host_internals_are_refused_in_every_dialect(tmp_path: Path) -> None:
    write(tmp_path, {"plug.py": "def run(params, context):\n    import paddock"})
    with working(tmp_path, {"it": "plug:run"}, dialect="paddock") as plugin:
        assert plugin.failure()["message"] == "the plugin failed (RefusedImport)"


def test_the_kernels_plugins_may_have_http_clients_and_never_the_host(tmp_path: Path) -> None:
    code = """
    import http.client
    def run(call):
        try:
            import paddock
        except ImportError as error:
            return str(error)
    """
    with kernel(tmp_path, code, "operator") as plugin:
        assert "a plugin may not import paddock:" in plugin.call()["result"]
