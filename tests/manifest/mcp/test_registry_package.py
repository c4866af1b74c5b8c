"""Names of registry packages: what is one, what only looks like one, and what two spellings mean the same."""

from __future__ import annotations

import pytest

from paddock.core.errors import OperatorError
from paddock.manifest.registry_package import (
    canonical_python_name,
    is_python_pin,
    parse_npm_package,
    parse_python_requirement,
)
from paddock.plugins.package.source import parse_npm_requirement, parse_pypi_requirement


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("mcp", "mcp", None),
        ("mcp[ws, cli]", "mcp[cli,ws]", None),
        ("mcp==1.2", "mcp", "==1.2"),
        ("mcp >= 1, < 2", "mcp", "<2,>=1"),
        ("mcp@1.2", "mcp", "==1.2"),
        ("mcp===local", "mcp", "===local"),
    ],
)
def test_a_python_package_is_named_with_extras_and_versions(text: str, name: str, version: str | None) -> None:
    assert parse_pypi_requirement(text) == (name, version)


def test_a_version_may_be_given_beside_the_name_unless_it_names_another() -> None:
    assert parse_pypi_requirement("mcp", "1.2") == parse_pypi_requirement("mcp==1.2", "1.2") == ("mcp", "==1.2")
    assert parse_pypi_requirement("mcp", ">=1,<2") == ("mcp", "<2,>=1")
    assert parse_npm_requirement("mcp", "^1.2") == ("mcp", "^1.2")
    for parse in (parse_pypi_requirement, parse_npm_requirement):
        with pytest.raises(OperatorError, match="two versions"):
            parse("mcp@1.2", "1.3")
        with pytest.raises(OperatorError, match="is not the name of a package"):
            parse("mcp", "; rm -rf /")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-e .",
        "../mcp",
        "--index-url=https://evil.example",
        "mcp @ https://evil.example/mcp.whl",
        "mcp@git+https://evil.example/mcp",
        "mcp==1.2 --hash=sha256:00",
        "mcp==1.2\n--index-url=https://evil.example",
        "mcp; python_version < '3\n--index-url'",
        "mcp==nonsense",
        "m\u0441p",  # with a Cyrillic letter
        "m" * 129,
    ],
)
def test_options_files_and_addresses_are_no_python_packages(text: str) -> None:
    assert parse_python_requirement(text) is None


@pytest.mark.parametrize("text", ["", "mcp@", "../mcp", "@scope", "mcp@file:..", "mcp@https://evil.example", "-g"])
def test_options_files_and_addresses_are_no_npm_packages(text: str) -> None:
    assert parse_npm_package(text) is None


def test_a_lock_pins_one_version_of_a_name() -> None:
    assert is_python_pin("Typing.Extensions", "4.12.0+local")
    assert canonical_python_name("Typing.Extensions") == canonical_python_name("typing_extensions")
    for name, version in (("mcp", "1.*"), ("mcp", ">=1"), ("mcp[cli]", "1"), ("mcp", "1.0\u0131"), ("-r", "1")):
        assert not is_python_pin(name, version)
