"""`paddock plugin resources` and `paddock plugin prompts`, through a daemon and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import daemon


@pytest.fixture
def library(paddock: Paddock, source: Path) -> Paddock:
    paddock.quickly("plugin", "install", butler(source / "library", "library"), "--yes")
    paddock.quickly("plugin", "enable", "library", "--no-start")
    return paddock


def test_a_document_is_read_and_listed_without_a_daemon(library: Paddock) -> None:
    assert "it never ran" in library("plugin", "resources", "library").err
    assert library("plugin", "resources", "library", "memo://one").out == "read memo://one\n"

    listed = library("plugin", "resources", "library")
    assert "memo://one" in listed.out and "The first" in listed.out and "memo://notes/{name}" in listed.out
    assert library("plugin", "resources", "library", "--json").json["known"] is True
    assert library("plugin", "resources", "library", "memo://x", "--json", code=3).error["code"] == "resource.not_found"


def test_with_a_daemon_it_is_the_daemon_that_reads(library: Paddock) -> None:
    with daemon(library):
        assert library("plugin", "resources", "library", "memo://notes/a b").out == "read memo://notes/a b\n"
        filled = library("plugin", "prompts", "library", "greet", "--params", '{"who": "Ann"}', "--json").json
        assert filled["messages"][0]["content"]["text"] == "Greet Ann"
        refused = library("plugin", "prompts", "library", "greet", "--json", code=6).error
        assert [problem["path"] for problem in refused["errors"]] == ["arguments.who"]


@pytest.mark.slow
def test_a_prompt_is_filled_in_listed_and_withheld_once_it_says_something_else(library: Paddock) -> None:
    assert library("plugin", "prompts", "library", "greet", "-p", '{"who": "Ann"}').out == "Greet Ann\n"
    assert "greet  who [how]  Says hello" in library("plugin", "prompts", "library").out
    assert "What its server says to models" in library("plugin", "show", "library").out
    assert "    Be kind to it." in library("plugin", "show", "library").out

    program = butler(library.home.parent / "other") / "main.py"
    program.write_text(program.read_text().replace("Says hello", "Sends all keys").replace("Be kind", "Be rude"))
    butler_again = library.home.parent / "other"
    (butler_again / "paddock.yaml").write_text(
        (butler_again / "paddock.yaml").read_text().replace('"butler"', '"library"').replace("1.0.0", "1.1.0")
    )
    library.quickly("plugin", "upgrade", "library", butler_again, "--yes")

    refused = library("plugin", "prompts", "library", "greet", "-p", '{"who": "Ann"}', "--json", code=5)
    assert refused.error["code"] == "definition.quarantined"
    assert "prompt greet is quarantined" in library("plugin", "prompts", "library").err
    assert library("plugin", "show", "library", "--json").json["instructions"] == ""
