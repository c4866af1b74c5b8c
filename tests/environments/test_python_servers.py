"""MCP servers from a Python package index: pinned, shown, built, and nothing of theirs run on the way."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from tests.environments.looking import command_of, environments, printed
from tests.environments.shops import PythonIndex

from fixtures.commands import Paddock

SERVER = "pypi:tiny-server"


@pytest.mark.req("B-02", "registry packages pinned by hash")
def test_a_server_is_pinned_with_its_dependencies_before_anybody_is_asked(paddock: Paddock, index: PythonIndex) -> None:
    asked = paddock.quickly("plugin", "install", SERVER, "--json", code=4)
    screen = asked.error["details"]["screen"]
    assert screen["heading"] == "tiny-server 1.0.0"
    assert screen["facts"]["description"] == "Answers"
    installed = next(one["lines"] for one in screen["sections"] if one["title"] == "What is installed for it")
    assert installed[0] == "The package tiny-server, exactly version 1.0.0, and 1 dependency"
    assert "pinned by hash" in installed[1]
    runs = next(one["lines"] for one in screen["sections"] if one["title"] == "What it runs")
    assert runs == ["Runs the program tiny-server of its package"]
    assert environments(paddock) == []
    assert not paddock.listed()

    paddock.quickly("plugin", "install", SERVER, "--yes")
    tree = paddock.trees / "tiny-server" / "1.0.0"
    assert sorted(path.name for path in tree.iterdir()) == ["paddock.yaml", "requirements.lock"]
    wheels = ["tiny_server-1.0.0", "tiny_lib-2.1.0"]
    hashes = [hashlib.sha256(index.files[f"/files/{one}-py3-none-any.whl"][1]).hexdigest() for one in wheels]
    assert (tree / "requirements.lock").read_text().splitlines() == [
        f"tiny-server==1.0.0 --hash=sha256:{hashes[0]}",
        f"tiny-lib==2.1.0 --hash=sha256:{hashes[1]}",
    ]
    assert printed(paddock, "tiny-server") == "42"


def test_an_environment_is_compiled_read_only_and_holds_no_other_interpreter(
    paddock: Paddock, index: PythonIndex
) -> None:
    paddock.quickly("plugin", "install", SERVER, "--yes")
    [root] = environments(paddock)
    paths = [root, *root.rglob("*")]
    assert all(path.is_symlink() or not path.stat().st_mode & 0o222 for path in paths)
    assert [path.name for path in (root / "bin").iterdir()] == ["python"]
    assert list(root.rglob("tiny_lib.cpython-*.pyc"))
    assert command_of(paddock, "tiny-server") == (str(root / "bin/python"), str(root / "programs/tiny-server"))


@pytest.mark.slow
def test_arguments_program_name_and_capabilities_are_the_persons_and_survive_an_upgrade(
    paddock: Paddock, index: PythonIndex
) -> None:
    chosen = ["--name", "mine", "--program", "other", "--arg", "--fast", "--capability", "net:api.example.com:443"]
    index.wheel("two-servers", "1.0.0", programs={"one": "two_servers:main", "other": "two_servers:main"})
    refused = paddock.quickly("plugin", "install", "pypi:two-servers", "--json", "--yes", code=6)
    assert refused.error["code"] == "environment.several_programs"
    paddock.quickly("plugin", "install", "pypi:two-servers", *chosen, "--yes")
    assert command_of(paddock, "mine")[1:] == (str(environments(paddock)[0] / "programs/other"), "--fast")

    index.wheel("two-servers", "1.1.0", programs={"one": "two_servers:main", "other": "two_servers:main"})
    paddock.quickly("plugin", "upgrade", "mine", "--yes")
    row = paddock.listed()["mine"]
    assert (row["version"], row["capabilities"]) == ("1.1.0", ["net:api.example.com:443"])
    assert command_of(paddock, "mine")[2:] == ("--fast",)


@pytest.mark.slow
def test_what_a_package_brings_along_can_be_held_down_and_each_plugin_has_its_own(
    paddock: Paddock, index: PythonIndex
) -> None:
    index.wheel("tiny-lib", "1.0.0", modules={"tiny_lib.py": "ANSWER = 1\n"}, programs={})
    index.wheel("old-server", "1.0.0", needs=("tiny-lib",))
    paddock.quickly("plugin", "install", SERVER, "--yes")
    paddock.quickly("plugin", "install", "pypi:old-server", "--with", "tiny-lib<2", "--yes")
    assert (printed(paddock, "tiny-server"), printed(paddock, "old-server")) == ("42", "1")
    assert len(environments(paddock)) == 2


@pytest.mark.slow
def test_newer_dependencies_of_the_same_version_are_an_upgrade_that_says_what_changes(
    paddock: Paddock, index: PythonIndex
) -> None:
    paddock.quickly("plugin", "install", SERVER, "--yes")
    assert paddock.quickly("plugin", "upgrade", "tiny-server", "--yes", "--json").json["action"] == "unchanged"
    index.wheel("tiny-lib", "2.2.0", modules={"tiny_lib.py": "ANSWER = 43\n"}, programs={})
    upgraded = paddock.quickly("plugin", "upgrade", "tiny-server", "--yes", "--json").json
    assert upgraded["version"].startswith("1.0.0+")
    changed = next(one["lines"] for one in upgraded["screen"]["sections"] if one["title"] == "Packages it runs with")
    assert changed[0] == "tiny-lib 2.1.0 → 2.2.0"
    assert printed(paddock, "tiny-server") == "43"
    paddock.quickly("plugin", "rollback", "tiny-server", "--yes")
    assert printed(paddock, "tiny-server") == "42"


@pytest.mark.slow
def test_a_name_that_another_package_has_is_not_taken_over(paddock: Paddock, index: PythonIndex) -> None:
    index.wheel("other", "1.0.0")
    paddock.quickly("plugin", "install", SERVER, "--yes")
    paddock.quickly(
        "plugin", "install", "pypi:other", "--name", "tiny-server", code=4
    )  # named: shown as what it is, and asked
    index.wheel("Tiny.Server", "9.0.0", programs={"x": "tiny_server:main"})
    taken = paddock.quickly("plugin", "install", "pypi:tiny.server", "--json", "--yes", code=1)
    assert taken.error["code"] == "plugin.name_taken"


@pytest.mark.req("B-02", "registry packages pinned by hash")
def test_a_file_that_was_swapped_after_the_consent_is_refused_and_leaves_nothing(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    path = "/files/tiny_lib-2.1.0-py3-none-any.whl"
    index.held = {path}
    with paddock.start("plugin", "install", SERVER, "--yes", "--json") as process:
        assert index.asked.wait(60), "it fetches the library only after the consent"
        honest = index.files[path]
        index.wheel("tiny-lib", "2.1.0", modules={"tiny_lib.py": "ANSWER = 666\n"}, programs={})
        index.released.set()
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["error"]["code"]) == (7, "environment.hash_mismatch")
    assert not paddock.listed()
    assert environments(paddock) == []
    assert list(paddock.staging.iterdir()) == []
    assert honest != index.files[path]


@pytest.mark.parametrize(
    ("wanted", "code", "error"),
    [
        ("pypi:nobody-made-this", 3, "environment.package_not_found"),
        ("pypi:tiny-server==7.0", 3, "environment.version_not_found"),
        ("pypi:needs-the-future", 6, "environment.other_python"),
        ("pypi:needs-nothing-there-is", 3, "environment.package_not_found"),
        ("pypi:contradiction", 6, "environment.contradiction"),
        ("pypi:tiny-lib", 6, "environment.no_program"),
        ("pypi:--index-url=evil", 6, "source.unknown"),
        ("pypi:../tiny", 6, "source.unknown"),
    ],
)
def test_what_cannot_be_had_is_said_with_its_reason(
    paddock: Paddock, index: PythonIndex, wanted: str, code: int, error: str
) -> None:
    index.wheel("needs-the-future", python=">=9.9")
    index.wheel("needs-nothing-there-is", needs=("absent-dependency",))
    index.wheel("tiny-lib", "1.0.0", modules={}, programs={})
    index.wheel("contradiction", needs=("tiny-lib<2", "tiny-lib>=2"))
    said = paddock.quickly("plugin", "install", wanted, "--yes", "--json", code=code)
    assert said.error["code"] == error
    assert said.error.get("hint")
    if error == "environment.version_not_found":
        assert "1.0.0" in said.error["hint"]
    if "nothing-there" in wanted:
        assert "absent-dependency" in said.error["message"]


def test_an_index_that_cannot_be_reached_is_not_a_missing_package(paddock: Paddock, index: PythonIndex) -> None:
    nowhere = Paddock(paddock.home, more=paddock.more | {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"})
    said = nowhere.quickly("plugin", "install", SERVER, "--yes", "--json", code=1)
    assert said.error["code"] == "environment.unreachable"


def test_a_package_of_which_there_is_only_source_is_refused_and_its_code_does_not_run(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    setup = f"open({str(canary)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='raw', version='1.0.0')\n"
    path = index.source("raw", "1.0.0", setup)
    index.wheel("sly", needs=(f"raw @ {index.address}{path}",))
    index.wheel("leaning", needs=("raw",))
    for name, code in (("raw", "source_only"), ("leaning", "source_only"), ("sly", "elsewhere")):
        said = paddock.quickly("plugin", "install", f"pypi:{name}", "--yes", "--json", code=6)
        assert (name, said.error["code"]) == (name, f"environment.{code}")
        assert "raw" in said.error["message"]
    assert not canary.exists()


def test_a_dependency_from_an_address_of_its_own_is_refused_even_when_it_is_built(
    paddock: Paddock, index: PythonIndex
) -> None:
    path = index.wheel("built", programs={})
    index.wheel("sly", needs=(f"built @ {index.address}{path}",))
    said = paddock.quickly("plugin", "install", "pypi:sly", "--yes", "--json", code=6)
    assert said.error["code"] == "environment.elsewhere"


@pytest.mark.slow
def test_a_withdrawn_version_is_taken_only_by_name_and_with_a_warning(paddock: Paddock, index: PythonIndex) -> None:
    index.wheel("tiny-server", "1.1.0", needs=("tiny-lib",), yanked=True)
    assert "1.0.0" in paddock.quickly("plugin", "install", SERVER, code=4).err
    said = paddock.quickly("plugin", "install", f"{SERVER}==1.1.0", code=4).err
    assert "withdrawn" in said


def test_what_strangers_wrote_about_a_package_stays_short_and_plain(paddock: Paddock, index: PythonIndex) -> None:
    hostile = "\x1b[2J\x1b[31mTrusted\u202e by everybody\x07 " + "x" * 100_000
    index.wheel("loud", Summary=hostile, License="MIT\x1b]0;title\x07", Home_page="javascript:alert(1)")
    said = paddock.quickly("plugin", "install", "pypi:loud", "--yes")
    manifest = (paddock.trees / "loud" / "1.0.0" / "paddock.yaml").read_text()
    assert all(line.isprintable() for line in manifest.splitlines())
    assert "Trusted by everybody" in manifest
    assert len(manifest) < 1_000
    assert "javascript" not in manifest
    assert "\x1b[2J" not in said.err


@pytest.mark.slow
def test_a_persons_own_settings_for_pip_are_honoured_and_ours_not_overridden(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nindex-url = {index.address}/simple\n")
    more = {"PIP_CONFIG_FILE": str(config), "PIP_NO_CACHE_DIR": "1", "PIP_TARGET": str(tmp_path / "elsewhere")}
    own = Paddock(paddock.home, more=more | {"PIP_USER": "1", "PIP_NO_BINARY": ":all:", "PIP_FIND_LINKS": ""})
    own.quickly("plugin", "install", SERVER, "--yes")
    assert printed(own, "tiny-server") == "42"
    assert not (tmp_path / "elsewhere").exists()
    assert os.environ.get("PIP_TARGET") is None
