"""Which package a launcher's command would fetch, and which command is none we could install instead."""

from __future__ import annotations

import shlex

import pytest

from fixtures.all_cases import all_cases
from paddock.manifest.registry_launcher import RegistryCommand, UnsupportedLauncher, parse_launcher


@all_cases(
    ("command", "source", "program", "arguments"),
    [
        ("npx -y @acme/files /srv", "npm:@acme/files", None, ("/srv",)),
        ("npx @acme/files@1.2.3 -y", "npm:@acme/files@1.2.3", None, ("-y",)),
        ("npx --yes --package=@acme/files@^1 files --ro", "npm:@acme/files@^1", "files", ("--ro",)),
        ("cmd /c npx.cmd -y files@latest", "npm:files@latest", None, ()),
        ("/usr/bin/npx -p files -- serve -- x", "npm:files", "serve", ("x",)),
        ("npm exec -y -- files --ro", "npm:files", None, ("--ro",)),
        ("bunx --bun files", "npm:files", None, ()),
        ("bun x files", "npm:files", None, ()),
        ("pnpm dlx files", "npm:files", None, ()),
        ("uvx mcp-time --zone UTC", "pypi:mcp-time", None, ("--zone", "UTC")),
        ("uvx mcp-time@latest", "pypi:mcp-time", None, ()),
        ("uvx --python 3.12 -q 'mcp-time[all]==1.0'", "pypi:mcp-time[all]==1.0", None, ()),
        ("uvx --from 'mcp-time >= 1, < 2' serve", "pypi:mcp-time>=1,<2", "serve", ()),
        ("uv tool run mcp-time", "pypi:mcp-time", None, ()),
        ("pipx run --spec=mcp-time==1.0 serve x", "pypi:mcp-time==1.0", "serve", ("x",)),
        ("pipx run mcp-time", "pypi:mcp-time", None, ()),
    ],
)
def test_a_launchers_command_says_which_package_it_is(
    command: str, source: str, program: str | None, arguments: tuple[str, ...]
) -> None:
    found = parse_launcher(shlex.split(command))
    assert isinstance(found, RegistryCommand)
    assert (found.source, found.program, found.arguments) == (source, program, arguments)


def test_what_comes_along_with_a_python_package_is_kept() -> None:
    found = parse_launcher(["uvx", "--with", "mcp<2,httpx", "--with=anyio==4", "mcp-time"])
    assert isinstance(found, RegistryCommand)
    assert found.extra_packages == ("mcp<2", "httpx", "anyio==4")


@all_cases(
    "command",
    [
        *("npx", "npx -y", "npx -c 'files x'", "npx -y acme/files", "npx ./files", "npx -p one -p two x"),
        *("npx '${user_config.name}'", "npx --registry=http://x.example files", "npx -y https://x.example/f.tgz"),
        *("uvx --from git+https://x.example/x.git x", "uvx --index-url http://x.example y", "uvx ./here", "uvx --from"),
        *("uv run server.py", "uv --directory /srv run x", "docker run -i acme/files", "podman run x", "dnx Files@1"),
    ],
)
def test_a_command_that_names_no_package_of_a_registry_says_why(command: str) -> None:
    found = parse_launcher(shlex.split(command))
    assert isinstance(found, UnsupportedLauncher)
    assert found.why


@pytest.mark.parametrize("command", ["node server.js", "python3 -m npx", "./npx-like", "uv pip list", "npm start", ""])
def test_any_other_command_is_no_launchers(command: str) -> None:
    assert parse_launcher(shlex.split(command)) is None
