"""A command line whose uv and npm know only registries of our own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.environments.shops import NpmRegistry, PythonIndex

from fixtures.commands import Paddock


@pytest.fixture
def index() -> Iterator[PythonIndex]:
    """An index with a server and the one library it needs."""
    shop = PythonIndex()
    with shop.open():
        shop.wheel("tiny-lib", "2.1.0", modules={"tiny_lib.py": "ANSWER = 42\n"}, programs={})
        shop.wheel("tiny-server", "1.0.0", needs=("tiny-lib>=2",), Summary="Answers", License="MIT")
        yield shop


@pytest.fixture
def registry() -> Iterator[NpmRegistry]:
    """A registry with a server and the one library it needs."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed here")
    shop = NpmRegistry()
    with shop.open():
        shop.package("tiny-lib", "2.1.0", script="exports.answer = 42\n", bin={})
        script = "#!/usr/bin/env node\nconsole.log(require('tiny-lib').answer)\n"
        shop.package("@tests/tiny-server", script=script, dependencies={"tiny-lib": "^2.0.0"}, description="Answers")
        yield shop


@pytest.fixture
def paddock(tmp_path: Path, request: pytest.FixtureRequest) -> Paddock:
    """Commands against a home of their own. They use whichever of the registries the test asks for."""
    more: dict[str, str] = {}
    for name in ("index", "registry"):
        if name in request.fixturenames:
            more |= request.getfixturevalue(name).environment(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    return Paddock(home, more=more)
