"""Locks of npm packages that say one thing and would have npm install another, and honest ones that look alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.environments.looking import environments, printed
from tests.environments.shops import NpmRegistry

from fixtures.commands import Paddock, Said
from fixtures.packages import write_json

EVIL = "console.log('evil')\n"
PROGRAM = "#!/usr/bin/env node\nrequire('inner')\n"
INNER = "node_modules/good/node_modules/inner"


class Author:
    """Writes plugins whose lock is their own, for a host that lets them."""

    def __init__(self, paddock: Paddock, registry: NpmRegistry, folder: Path) -> None:
        self.paddock, self.registry, self.folder = paddock, registry, folder
        (paddock.home / "config.toml").write_text("[plugins]\nenvironments = true\n")
        runtime = {"command": ["environment:good"]}
        manifest = {"paddock": 1, "name": "mine", "version": "1.0.0", "description": "x", "runtime": runtime}
        write_json(folder / "paddock.yaml", manifest)
        registry.package("evil", script=EVIL)
        registry.package("inner", script="console.log('inner')\n")
        registry.package("good", script=PROGRAM, dependencies={"inner": "1.0.0"})

    def entry(self, name: str, **more: Any) -> dict[str, Any]:
        """An honest entry for a package of the registry."""
        found = {"version": "1.0.0", "integrity": self.registry.integrity(f"/{name}/-/{name}-1.0.0.tgz")}
        return found | ({"bin": {"good": "index.js"}} if name == "good" else {}) | more

    def install(self, entries: dict[str, dict[str, Any]], code: int = 0) -> Said:
        root = {"name": "x", "version": "0.0.0", "dependencies": {"good": "1.0.0"}}
        write_json(self.folder / "package-lock.json", {"lockfileVersion": 3, "packages": {"": root, **entries}})
        self.registry.requests.clear()
        return self.paddock.quickly("plugin", "install", self.folder, "--yes", "--json", code=code)


@pytest.fixture
def author(paddock: Paddock, registry: NpmRegistry, tmp_path: Path) -> Author:
    return Author(paddock, registry, tmp_path / "mine")


def test_a_lock_that_pins_everything_is_installed(author: Author) -> None:
    needs = {"dependencies": {"inner": "^1.0.0"}}
    author.install({"node_modules/good": author.entry("good", **needs), "node_modules/inner": author.entry("inner")})
    assert printed(author.paddock, "mine") == "inner"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"node_modules/good": {"version": "1.0.0", "inBundle": True}}, "has no hash"),
        ({"node_modules/good": {"name": "evil"}}, "another package would lie there: evil"),
        ({"node_modules/good": {"name": "../evil"}}, "has a name that is none"),
        (
            {"node_modules/good": {}, "node_modules/none/node_modules/inner": {"version": "1.0.0", "inBundle": True}},
            "has no hash",
        ),
    ],
)
def test_an_entry_without_a_hash_or_with_the_name_of_another_package_is_refused(
    author: Author, entries: dict[str, dict[str, Any]], said: str
) -> None:
    given = {place: (one if "inBundle" in one else author.entry("evil") | one) for place, one in entries.items()}
    error = author.install(given, code=6).error
    assert error["code"] == "environment.bad_lock"
    assert said in json.dumps(error["errors"])
    assert author.registry.requests == []


@pytest.mark.parametrize("needs", [{"dependencies": {"inner": "1.0.0"}}, {"bundleDependencies": ["inner"]}])
def test_what_is_only_said_to_lie_in_another_archive_is_never_fetched_in_its_place(
    author: Author, needs: dict[str, Any]
) -> None:
    bundled = {"version": "1.0.0", "inBundle": True}
    given = {"node_modules/good": author.entry("good", **needs), INNER: bundled}
    if "dependencies" in needs:
        assert author.install(given, code=7).error["code"] == "environment.hash_mismatch"
        assert environments(author.paddock) == []
    else:
        author.install(given)
        assert not list(environments(author.paddock)[0].rglob("inner"))


def test_a_list_inside_an_archive_does_not_replace_what_is_pinned(author: Author) -> None:
    elsewhere = {"version": "1.0.0", "resolved": f"{author.registry.address}/evil/-/evil-1.0.0.tgz"}
    listed = {
        "lockfileVersion": 3,
        "packages": {"": {"dependencies": {"inner": "1.0.0"}}, "node_modules/inner": elsewhere},
    }
    needs: dict[str, Any] = {"dependencies": {"inner": "1.0.0"}}
    author.registry.package("good", script=PROGRAM, files={"npm-shrinkwrap.json": json.dumps(listed)}, **needs)
    good = author.entry("good", hasShrinkwrap=True, _hasShrinkwrap=True, **needs)
    author.install({"node_modules/good": good, INNER: author.entry("inner")})
    assert printed(author.paddock, "mine") == "inner"


@pytest.mark.parametrize(
    "kind",
    ["dependencies", *(pytest.param(f"{kind}Dependencies", marks=pytest.mark.slow) for kind in ("optional", "peer"))],
)
def test_an_address_among_what_a_package_needs_does_not_replace_what_is_pinned(author: Author, kind: str) -> None:
    needs = {kind: {"inner": f"{author.registry.address}/evil/-/evil-1.0.0.tgz"}}
    author.install({"node_modules/good": author.entry("good", **needs), "node_modules/inner": author.entry("inner")})
    assert printed(author.paddock, "mine") == "inner"
    assert not [path for path in author.registry.requests if "evil" in path]


@pytest.mark.slow
def test_a_server_that_has_its_dependency_in_its_archive_runs_with_that_one(
    paddock: Paddock, registry: NpmRegistry
) -> None:
    registry.package("inner", script=EVIL)
    within = {
        "node_modules/inner/package.json": json.dumps({"name": "inner", "version": "1.0.0"}),
        "node_modules/inner/index.js": "console.log('from the archive')\n",
    }
    needs = {"dependencies": {"inner": "1.0.0"}, "bundleDependencies": ["inner"]}
    registry.package("bundler", script=PROGRAM, files=within, **needs)
    paddock.quickly("plugin", "install", "npm:bundler", "--yes")
    assert printed(paddock, "bundler") == "from the archive"
    assert "/inner/-/inner-1.0.0.tgz" not in registry.requests


@pytest.mark.slow
def test_a_dependency_under_another_name_is_shown_by_its_own(paddock: Paddock, registry: NpmRegistry) -> None:
    registry.package("good", "1.0.0")
    registry.package("true-name", script="console.log('called otherwise')\n")
    paddock.quickly("plugin", "install", "npm:good", "--yes")
    registry.package("good", "1.1.0", script=PROGRAM, dependencies={"inner": "npm:true-name@^1.0.0"})
    upgraded = paddock.quickly("plugin", "upgrade", "good", "--yes", "--json").json
    changed = next(one["lines"] for one in upgraded["screen"]["sections"] if one["title"] == "Packages it runs with")
    assert "+ true-name 1.0.0" in changed
    assert printed(paddock, "good") == "called otherwise"


def test_an_older_one_of_the_same_name_further_down_is_not_taken_for_the_one_asked_for(
    paddock: Paddock, registry: NpmRegistry
) -> None:
    registry.package("zeta", "1.0.0")
    registry.package("alpha", dependencies={"zeta": "1.0.0"})
    registry.package("zeta", "2.0.0", dependencies={"alpha": "1.0.0"})
    screen = paddock.quickly("plugin", "install", "npm:zeta", "--json", code=4).error["details"]["screen"]
    assert screen["heading"] == "zeta 2.0.0"
