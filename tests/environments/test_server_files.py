"""MCP servers in one Python file with packages: found, pinned by hash, shown, and visible to that server alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.environments.looking import environments
from tests.environments.shops import PythonIndex

from fixtures.commands import Paddock
from fixtures.packages import write_file
from fixtures.server_files import plain_python

SAYS_ANSWER = plain_python("import tiny_lib", said="str(tiny_lib.ANSWER)")
METADATA = "# /// script\n# requires-python = '>=3.8'\n# dependencies = ['tiny-lib>=2']\n# ///\n"


def answer(paddock: Paddock, name: str) -> str:
    paddock.quickly("plugin", "enable", name)
    return paddock.quickly("call", f"{name}.say", "--json").json["result"]["content"][0]["text"]


@pytest.mark.req("B-02", "registry packages pinned by hash")
def test_the_packages_in_a_files_metadata_are_pinned_and_shown_before_anybody_consents(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    file = write_file(tmp_path / "answers.py", METADATA + SAYS_ANSWER)
    asked = paddock.quickly("plugin", "install", file, "--json", code=4)
    sections = {one["title"]: one["lines"] for one in asked.error["details"]["screen"]["sections"]}
    assert sections["What is installed for it"][0] == "tiny-lib 2.1.0, and no dependencies"
    assert sections["What it runs"] == ["Runs the command, with packages of its own: python ./server.py"]
    assert asked.error["details"]["server"]["answers"]
    assert environments(paddock) == []

    downloads = [path for path in index.requests if path.endswith(".whl")]
    paddock.quickly("plugin", "install", file, "--yes")
    # The environment of the trial is the one that is kept.
    assert len([path for path in index.requests if path.endswith(".whl")]) == 2 * len(downloads)
    tree = paddock.trees / "answers" / "0.1.0"
    assert sorted(path.name for path in tree.iterdir()) == ["paddock.yaml", "requirements.lock", "server.py"]
    assert (tree / "requirements.lock").read_text().startswith("tiny-lib==2.1.0 --hash=sha256:")
    assert len(environments(paddock)) == 1
    assert answer(paddock, "answers") == "42"


@pytest.mark.slow
def test_a_package_that_a_person_names_is_kept_for_the_next_version_of_the_file(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    file = write_file(tmp_path / "answers.py", SAYS_ANSWER)
    refused = paddock.quickly("plugin", "install", file, "--yes", "--json", code=6)
    assert refused.error["code"] == "server.missing_package"
    paddock.quickly("plugin", "install", file, "--with", "tiny-lib", "--yes")
    assert answer(paddock, "answers") == "42"

    index.wheel("tiny-lib", "2.2.0", modules={"tiny_lib.py": "ANSWER = 43\n"}, programs={})
    shown = paddock.quickly("plugin", "upgrade", "answers", "--yes", "--json").json
    assert any("tiny-lib" in line for one in shown["screen"]["sections"] for line in one["lines"])
    assert answer(paddock, "answers") == "43"


@pytest.mark.slow
def test_a_package_that_is_not_there_is_said_and_nothing_stays(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    file = write_file(tmp_path / "answers.py", METADATA.replace("tiny-lib>=2", "no-such-lib") + SAYS_ANSWER)
    refused = paddock.quickly("plugin", "install", file, "--yes", "--json", code=3)
    assert "no-such-lib" in refused.error["message"]
    assert environments(paddock) == []
    assert not any(paddock.staging.iterdir())
