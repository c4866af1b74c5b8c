"""MCP servers from an npm registry: pinned, shown, built, and none of their scripts run."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.environments.looking import command_of, environments, printed
from tests.environments.shops import NpmRegistry

from fixtures.commands import Paddock

SERVER = "npm:@tests/tiny-server"


@pytest.mark.req("B-02", "registry packages pinned by hash")
def test_a_server_is_pinned_with_its_dependencies_and_runs_from_what_was_pinned(
    paddock: Paddock, registry: NpmRegistry
) -> None:
    asked = paddock.quickly("plugin", "install", SERVER, "--json", code=4)
    lines = [line for one in asked.error["details"]["screen"]["sections"] for line in one["lines"]]
    assert "The package @tests/tiny-server, exactly version 1.0.0, and 1 dependency" in lines
    assert environments(paddock) == []

    paddock.quickly("plugin", "install", SERVER, "--yes")
    tree = paddock.trees / "tiny-server" / "1.0.0"
    assert sorted(path.name for path in tree.iterdir()) == ["package-lock.json", "paddock.yaml"]
    lock = json.loads((tree / "package-lock.json").read_text())["packages"]
    assert lock[""]["dependencies"] == {"@tests/tiny-server": "1.0.0"}
    assert all(entry["integrity"].startswith("sha512-") for place, entry in lock.items() if place)
    assert registry.address not in json.dumps(lock)
    [root] = environments(paddock)
    assert command_of(paddock, "tiny-server") == ("node", str(root / "node_modules/@tests/tiny-server/index.js"))
    assert printed(paddock, "tiny-server") == "42"
    assert not [path for path in root.rglob("*") if path.is_symlink() or path.stat().st_mode & 0o222]


def test_no_script_of_a_package_runs_and_the_person_is_told_that_it_has_some(
    paddock: Paddock, registry: NpmRegistry, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    scripts = dict.fromkeys(("preinstall", "install", "postinstall", "prepare"), f"touch {canary}")
    registry.package("scripted", scripts=scripts, hasInstallScript=True)
    said = paddock.quickly("plugin", "install", "npm:scripted", "--yes")
    assert "wants to run programs while it is installed" in said.err
    assert printed(paddock, "scripted") == "scripted runs"
    assert not canary.exists()


@pytest.mark.req("B-02", "registry packages pinned by hash")
@pytest.mark.slow
def test_an_archive_that_was_swapped_after_the_consent_is_refused(paddock: Paddock, registry: NpmRegistry) -> None:
    path = "/tiny-lib/-/tiny-lib-2.1.0.tgz"
    registry.held = {path}
    with paddock.start("plugin", "install", SERVER, "--yes", "--json") as process:
        assert registry.asked.wait(60), "it fetches archives only after the consent"
        registry.package("tiny-lib", "2.1.0", script="exports.answer = 666\n")
        registry.released.set()
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["error"]["code"]) == (7, "environment.hash_mismatch")
    assert environments(paddock) == []
    assert not paddock.listed()


@pytest.mark.parametrize(
    ("wanted", "code", "error"),
    [
        ("npm:nobody-made-this", 3, "environment.package_not_found"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("npm:@tests/tiny-server@7.0.0", 3, "environment.version_not_found"),
                ("npm:needs-the-absent", 3, "environment.package_not_found"),
                ("npm:needs-the-future", 6, "environment.other_node"),
                ("npm:from-an-address", 6, "environment.bad_lock"),
            ]
        ),
        ("npm:from-a-repository", 6, "environment.elsewhere"),
        ("npm:tiny-lib", 6, "environment.no_program"),
        ("npm:file:../evil", 6, "source.unknown"),
        ("npm:--registry=evil", 6, "source.unknown"),
        ("npm:-g", 6, "source.unknown"),
    ],
)
def test_what_cannot_be_had_is_said_with_its_reason(
    paddock: Paddock, registry: NpmRegistry, wanted: str, code: int, error: str
) -> None:
    registry.package("needs-the-absent", dependencies={"absent": "1.0.0"})
    registry.package("needs-the-future", engines={"node": ">=999"})
    registry.package("from-a-repository", dependencies={"x": "git+https://127.0.0.1:9/x.git"})
    address = f"{registry.address}/tiny-lib/-/tiny-lib-2.1.0.tgz"
    registry.package("from-an-address", dependencies={"tiny-lib": address})
    said = paddock.quickly("plugin", "install", wanted, "--yes", "--json", code=code)
    assert said.error["code"] == error
    if "absent" in wanted:
        assert "absent" in said.error["message"]


def test_a_registry_that_cannot_be_reached_is_not_a_missing_package(paddock: Paddock, registry: NpmRegistry) -> None:
    more = paddock.more | {"npm_config_registry": "http://127.0.0.1:9/"}
    del more["npm_config_fetch_retries"]  # by itself npm waits for 10 s, and then for 60 s
    began = time.monotonic()
    said = Paddock(paddock.home, more=more).quickly("plugin", "install", SERVER, "--yes", "--json", code=1)
    assert said.error["code"] == "environment.unreachable"
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_what_strangers_wrote_about_a_package_stays_short_and_plain(paddock: Paddock, registry: NpmRegistry) -> None:
    hostile = "\x1b[2JTrusted\u202e by everybody\n\n  all of them " + "x" * 100_000
    registry.package(
        "loud", description=hostile, license={"type": "MIT"}, homepage="javascript:alert(1)", deprecated="No"
    )
    said = paddock.quickly("plugin", "install", "npm:loud", "--yes")
    manifest = (paddock.trees / "loud" / "1.0.0" / "paddock.yaml").read_text()
    assert all(line.isprintable() for line in manifest.splitlines())
    assert "Trusted by everybody all of them" in manifest
    assert len(manifest) < 1_000
    assert "not to use it any more: No" in said.err
