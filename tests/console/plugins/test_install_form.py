"""What somebody types who wants a plugin: read whole, with every mistake at its field."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.console.forms.request_form import SubmittedForm
from paddock.console.pages.plugins.install_form import INSTALL_FIELDS, parse_install_form, typed_values
from paddock.plugins.package.source import PackageSource, SourceKind


def typed(**fields: str) -> dict[str, str]:
    return dict.fromkeys(INSTALL_FIELDS, "") | fields


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, {"source"}),
        ({"source": "my-plugin"}, {"source"}),
        ({"source": "git+my-plugin"}, {"source"}),
        ({"source": "/nowhere/at/all"}, {"source"}),
        ({"source": "http://example.com/x"}, {"source"}),
        ({"source": "https://example.com/x.git", "ref": "a b"}, {"ref"}),
        ({"source": "pypi:x", "constraints": "!!"}, {"constraints"}),
        ({"source": "pypi:x", "capabilities": "net:example.com:443\nnonsense"}, {"capabilities"}),
        ({"source": "pypi:x", "variables": "API_KEY=abc"}, {"variables"}),
        ({"source": "npm:x", "capabilities": "nonsense", "variables": "API_KEY=abc"}, {"capabilities", "variables"}),
        ({"source": "https://example.com/x.git", "name": "x", "arguments": "-v"}, {"name", "arguments"}),
    ],
)
def test_every_mistake_stands_at_its_field(fields: dict[str, str], wrong: set[str]) -> None:
    found = parse_install_form(typed(**fields))

    assert found.install_request is None
    assert set(found.problems) == wrong


def test_a_value_that_may_be_a_key_is_never_repeated() -> None:
    found = parse_install_form(typed(source="pypi:x", variables="API_KEY=hunter2"))

    assert "hunter2" not in str(found.problems)


def test_a_registrys_package_comes_with_what_was_said_about_it() -> None:
    said = typed(
        source="pypi:mcp-server-time", ref="1.2", name="clock", arguments="--zone\nUTC", variables="REGION=eu\nTOKEN",
        capabilities="net:example.com:443", constraints="mcp<2", downgrade="1",
    )  # fmt: skip
    wanted = parse_install_form(said).install_request

    assert wanted is not None
    assert wanted.source == PackageSource(SourceKind.PYPI, "mcp-server-time", "==1.2", ("mcp<2",))
    assert wanted.downgrade
    choices = wanted.choices
    assert choices is not None
    assert (choices.name, choices.arguments, dict(choices.variables), choices.prompted_variables) == (
        "clock", ("--zone", "UTC"), {"REGION": "eu"}, ("TOKEN",),
    )  # fmt: skip
    assert [str(one) for one in choices.capabilities] == ["net:example.com:443"]


def test_an_upgrade_needs_no_source_and_knows_what_kind_it_had(tmp_path: Path) -> None:
    recorded = PackageSource(SourceKind.DIRECTORY, str(tmp_path))

    assert parse_install_form(typed(ref="v2"), "notes", recorded).install_request is not None
    assert set(parse_install_form(typed(arguments="-v"), "notes", recorded).problems) == {"arguments"}
    assert (
        parse_install_form(typed(arguments="-v"), "notes", PackageSource(SourceKind.NPM, "notes")).install_request
        is not None
    )


def test_spaces_around_what_was_typed_do_not_count() -> None:
    assert typed_values(SubmittedForm({"source": [" pypi:x "]}, {}))["source"] == "pypi:x"
