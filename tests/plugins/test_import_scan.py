"""A package whose code imports what a plugin may not is refused before anybody is asked about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.packages import write_file, write_json

from paddock.core.errors import Invalid
from paddock.manifest.read import read_package
from paddock.plugins.package.checks import check_imports, import_problems

REFUSED = [
    "import requests",
    "import json, httpx",
    "from urllib import request",
    "from urllib.request import urlopen",
    "import http.client as web",
    "def later():\n    import aiohttp",
    "importlib.import_module('requests')",
    "__import__('urllib3.util')",
    "import shu.services",
    "from paddock.host import host",
]
ALLOWED = [
    "import urllib.parse",
    "from urllib import parse, error",
    "import http",
    "import paddock_sdk",
    "import requests_of_ours",
    "from . import requests",
    "words = 'import requests'",
    "import_module(name)",
    "this is no Python",
]


def problems(folder: Path, code: str, *, path: str = "digest/plugin.py") -> list[str]:
    write_json(
        folder / "manifest.yaml", {"name": "d", "version": "1.0.0", "entrypoints": {"d": "digest.plugin:Plugin"}}
    )
    write_file(folder / "digest" / "plugin.py", "class Plugin: ...\n")
    write_file(folder / path, code + "\n")
    manifest = read_package(folder).single()
    return [f"{one.path}:{one.line} {one.message}" for one in import_problems(manifest, folder)]


@pytest.mark.req("S-20", "when installing")
@pytest.mark.parametrize("code", REFUSED)
def test_an_import_of_the_host_or_of_a_way_round_it_is_found(tmp_path: Path, code: str) -> None:
    assert problems(tmp_path, code, path="digest/more.py")


@pytest.mark.parametrize("code", ALLOWED)
def test_everything_else_may_be_imported(tmp_path: Path, code: str) -> None:
    assert problems(tmp_path, code, path="digest/more.py") == []


@pytest.mark.req("S-20", "when installing")
def test_every_such_import_is_told_with_its_file_and_line_also_of_a_vendored_library(tmp_path: Path) -> None:
    write_file(tmp_path / "vendor" / "lib" / "__init__.py", "import json\nimport urllib3\n")
    found = problems(tmp_path, "import json\nimport httpx\n", path="digest/more.py")
    assert found == ["digest/more.py:2 imports httpx", "vendor/lib/__init__.py:2 imports urllib3"]


def test_the_refusal_says_where_the_network_is_instead(tmp_path: Path) -> None:
    problems(tmp_path, "import requests", path="digest/more.py")
    with pytest.raises(Invalid, match="imports what a plugin may not") as refused:
        check_imports(read_package(tmp_path).single(), tmp_path)
    assert "host.http" in refused.value.problems[0].hint


def test_a_program_of_its_own_may_import_anything(tmp_path: Path) -> None:
    about = {
        "paddock": 1,
        "name": "p",
        "version": "1.0.0",
        "description": "x",
        "runtime": {"command": ["python3", "m.py"]},
    }
    write_json(tmp_path / "paddock.yaml", about)
    write_file(tmp_path / "m.py", "import requests\n")
    assert import_problems(read_package(tmp_path).single(), tmp_path) == []
