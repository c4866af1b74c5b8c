"""Every example is a sound package, in its folder and zipped."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from tests.examples.places import EXAMPLES

from paddock.manifest.model import Dialect
from paddock.manifest.read import read_package
from paddock.plugins.package.source import parse_source
from paddock.plugins.package.stage import stage_package

NOT_PLUGINS = {"n8n"}  # workflows to import there
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name not in NOT_PLUGINS)
INSTALLED = {
    "broken-clock": ("broken-clock", Dialect.NATIVE),
    "fourth-generation-formula": ("fourth-generation-formula", Dialect.OSQR),
    "greeter": ("greeter", Dialect.NATIVE),
    "kernel-email-draft": ("Email.GenerateDraft", Dialect.KERNEL),
    "kernel-switchboard": ("Switchboard", Dialect.KERNEL),
    "memory-markdown": ("memory-markdown", Dialect.KAGED),
    "mcp-units": ("mcp-units", Dialect.MCP),
    "native-notes": ("native-notes", Dialect.NATIVE),
    "outbox": ("outbox", Dialect.NATIVE),
    "shell-status": ("shell-status", Dialect.KAGED),
    "shu-notes": ("shu_notes", Dialect.SHU),
    "shu-web-digest": ("web_digest", Dialect.SHU),
    "slow-count": ("slow-count", Dialect.NATIVE),
    "typescript-dice": ("typescript-dice", Dialect.NATIVE),
}


def test_there_is_an_example_for_every_dialect() -> None:
    assert {dialect for _, dialect in INSTALLED.values()} == set(Dialect)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_no_mistake_no_warning_and_a_page_that_explains_it(name: str) -> None:
    reading = read_package(EXAMPLES / name)

    assert (reading.errors, reading.warnings) == ((), ())
    manifest = reading.single()
    assert (manifest.name, manifest.dialect) == INSTALLED[name]
    assert manifest.runtime is not None
    readme = (EXAMPLES / name / "README.md").read_text()
    assert 200 < len(readme) < 2500


@pytest.mark.parametrize("name", NAMES)
def test_a_zipped_example_is_accepted_and_reads_the_same(name: str, tmp_path: Path) -> None:
    tidy = tmp_path / "tidy"
    shutil.copytree(EXAMPLES / name, tidy, ignore=shutil.ignore_patterns("__pycache__"))
    archive = tmp_path / f"{name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for path in sorted(tidy.rglob("*")):
            package.write(path, path.relative_to(tidy))

    with stage_package(parse_source(str(archive)), tmp_path / "staging") as staged:
        assert {file.path for file in staged.tree.files} == {
            str(path.relative_to(tidy)) for path in tidy.rglob("*") if path.is_file()
        }
        assert read_package(staged.root).single() == read_package(EXAMPLES / name).single()
