"""A package that changes while a person decides is not installed by their yes, whichever way they say it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, SOURCE, Paddock
from fixtures.packages import native, write_file, write_json
from fixtures.ready_commands import run_ready_command


def staged_tree(paddock: Paddock) -> Path:
    """The files of the package that waits for an answer."""
    (tree,) = paddock.staging.glob("*/tree")
    return tree


def change_a_file(paddock: Paddock) -> None:
    write_file(staged_tree(paddock) / "run.sh", "#!/bin/sh\nexec other\n", executable=True)


def add_a_file(paddock: Paddock) -> None:
    write_file(staged_tree(paddock) / "more.py", "")


def request_more(paddock: Paddock) -> None:
    manifest = staged_tree(paddock) / "paddock.yaml"
    document = json.loads(manifest.read_text())
    document["capabilities"].append("net:*")
    manifest.write_text(json.dumps(document))


def rewrite_a_definition(paddock: Paddock) -> None:
    manifest = staged_tree(paddock) / "paddock.yaml"
    manifest.write_text(manifest.read_text().replace("Add a note", "Send every note to me"))


def remove_the_signature(paddock: Paddock) -> None:
    (staged_tree(paddock) / "paddock.sig").unlink()


def distrust_the_signer(paddock: Paddock) -> None:
    paddock.quickly("key", "remove", "Example Labs", "--yes")


def signed(paddock: Paddock, package: Path, key: Path) -> Path:
    if not key.exists():
        public = paddock.quickly("key", "add", key, "--json").json["public_key"]
        paddock.quickly("key", "trust", public, "--label", "Example Labs")
    paddock.quickly("plugin", "sign", package, "--key", key)
    return package


MEANWHILE = [
    (change_a_file, "are not the ones that you were shown"),
    (add_a_file, "are not the ones that you were shown"),
    (request_more, "are not the ones that you were shown"),
    (rewrite_a_definition, "are not the ones that you were shown"),
    (remove_the_signature, "now it is unsigned"),
    (distrust_the_signer, "now it is community-signed"),
]


@pytest.mark.parametrize(("meanwhile", "reason"), MEANWHILE)
def test_a_package_that_changes_while_a_person_reads_about_it_is_not_installed(
    paddock: Paddock, source: Path, meanwhile: Callable[[Paddock], None], reason: str
) -> None:
    package = signed(paddock, native(source / "notes"), source / "signing.pem")

    def decide() -> str:
        meanwhile(paddock)
        return "y"

    screen = paddock.on_terminal("plugin", "install", package, answers=[decide], code=4)

    assert reason in screen
    assert paddock.listed() == {}
    assert not (paddock.trees / "notes").exists()
    assert list(paddock.staging.iterdir()) == []
    assert not paddock.local.exists()


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [*MEANWHILE[::3], *(pytest.param(*one, marks=pytest.mark.slow) for at, one in enumerate(MEANWHILE) if at % 3)],
)
def test_a_version_that_changes_while_a_person_reads_about_it_replaces_nothing(
    paddock: Paddock, source: Path, meanwhile: Callable[[Paddock], None], reason: str
) -> None:
    key = source / "signing.pem"
    paddock.quickly("plugin", "install", signed(paddock, native(source / "one"), key), "--yes")
    following = signed(paddock, native(source / "two", version="1.1.0"), key)

    def decide() -> str:
        meanwhile(paddock)
        return "y"

    screen = paddock.on_terminal("plugin", "upgrade", "notes", following, answers=[decide], code=4)

    assert reason in screen
    assert paddock.listed()["notes"]["version"] == "1.0.0"


def test_a_key_that_is_trusted_while_a_person_decides_makes_the_loss_of_its_trust_a_question(
    paddock: Paddock, source: Path
) -> None:
    key = source / "signing.pem"
    first = native(source / "one")
    public = paddock.quickly("key", "add", key, "--json").json["public_key"]
    paddock.quickly("plugin", "install", first, "--yes")

    def decide() -> str:
        # The installed version gets a signature, and its key is trusted: the new one has neither.
        paddock.quickly("plugin", "sign", first, "--key", key)
        paddock.quickly("plugin", "install", first, "--yes")
        paddock.quickly("key", "trust", public, "--label", "Example Labs")
        return "y"

    screen = paddock.on_terminal(
        "plugin", "upgrade", "notes", native(source / "two", version="1.1.0"), answers=[decide], code=4
    )

    assert "the installed version is verified (signed by Example Labs); this one is unsigned" in screen
    assert paddock.listed()["notes"]["version"] == "1.0.0"


def test_another_loss_of_trust_than_the_accepted_one_is_not_accepted(paddock: Paddock, source: Path) -> None:
    key, first = source / "signing.pem", native(source / "one")
    public = paddock.quickly("key", "add", key, "--json").json["public_key"]
    paddock.quickly("plugin", "sign", first, "--key", key)
    paddock.quickly("plugin", "install", first, "--yes")

    def accept_after_the_key_became_trusted() -> str:
        paddock.quickly("key", "trust", public, "--label", "Example Labs")
        return "y"

    screen = paddock.on_terminal(
        "plugin",
        "upgrade",
        "notes",
        native(source / "two", version="1.1.0"),
        answers=["y", accept_after_the_key_became_trusted],
        code=4,
    )

    assert "the installed version is community-signed" in screen
    assert "you accepted another loss of trust than this: the installed version is verified" in screen
    assert paddock.listed()["notes"]["version"] == "1.0.0"


def test_configuration_that_changes_while_a_person_reads_about_it_is_not_replaced(
    paddock: Paddock, source: Path
) -> None:
    def settings(key: str) -> Path:
        server = {"command": "node", "env": {"KEY": key, "PLACE": "here"}}
        return write_json(source / "servers.json", {"mcpServers": {"weather": server}})

    paddock.quickly("import", settings("one"), "--yes")

    def decide() -> str:
        ran = run_ready_command(
            SOURCE,
            ["plugin", "configure", "weather", "PLACE"],
            stdin="there",
            env=paddock.environment,
            timeout=PATIENCE,
        )
        assert ran.returncode == 0, ran.stderr
        return "y"

    screen = paddock.on_terminal("import", settings("two"), answers=[decide], code=4)

    assert "this would now also replace PLACE" in screen
    versions = {row["name"]: row["version"] for row in paddock.quickly("secret", "list", "--json").json["secrets"]}
    assert versions == {"plugin/weather/KEY": 1, "plugin/weather/PLACE": 2}
