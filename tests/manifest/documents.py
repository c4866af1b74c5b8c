"""Small sound documents of every dialect, for tests to break in one place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.core.errors import Invalid, Problem
from paddock.manifest.dialects.mcp_user_config import ImportedServer
from paddock.manifest.model import Manifest
from paddock.manifest.read import ManifestResult, read_bytes

SEEDS = Path(__file__).parent / "seeds"

SOUND_YAML = "paddock: 1\nname: a\nversion: 1.0.0\ndescription: x\n"

KAGED: dict[str, Any] = {
    "name": "memory-markdown",
    "version": "0.1.0",
    "kaged_api": 1,
    "description": "Markdown-backed memory.",
    "command": ["python3", "main.py"],
    "capabilities": [],
}
KERNEL: dict[str, Any] = {
    "name": "Email.GenerateDraft",
    "type": "operator",
    "version": "1.2.0",
    "effects": ["db_write"],
}
SHU: dict[str, Any] = {"name": "gmail_digest", "version": "1.0.0", "entrypoints": {"gmail_digest": "pkg.plugin:Plugin"}}
OSQR: dict[str, Any] = {
    "plugin": {"name": "Coach", "version": "1.0.0", "creator": "Ada", "trust_tier": "community"},
    "constitutional_compliance": {
        "user_sovereignty": "preserved",
        "safety_guardrails": "preserved",
        "identity_core": "preserved",
    },
}
BUNDLE: dict[str, Any] = {
    "manifest_version": "0.3",
    "name": "weather",
    "version": "1.0.0",
    "description": "Weather.",
    "author": {"name": "Ada"},
    "server": {"type": "node", "entry_point": "index.js", "mcp_config": {"command": "node", "args": ["index.js"]}},
}
NATIVE: dict[str, Any] = {"paddock": 1, "name": "hello", "version": "1.0.0", "description": "Says hello."}


def changed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A deep copy with some top-level fields replaced; None takes a field away."""
    whole = copy.deepcopy(document) | changes
    return {key: value for key, value in whole.items() if value is not None}


class WithoutAliases(yaml.SafeDumper):
    """Writes a value that stands in two places twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the dumper's own shape
        return True


def read_yaml(name: str, document: Any) -> ManifestResult:
    return read_bytes(name, yaml.dump(document, Dumper=WithoutAliases, sort_keys=False).encode())


def read_json(name: str, document: Any) -> ManifestResult:
    return read_bytes(name, json.dumps(document, indent=2).encode())


def kaged(**changes: Any) -> ManifestResult:
    return read_yaml("kaged-plugin.yaml", changed(KAGED, **changes))


def kernel(**changes: Any) -> ManifestResult:
    return read_json("manifest.json", changed(KERNEL, **changes))


def shu(**changes: Any) -> ManifestResult:
    return read_yaml("manifest.yaml", changed(SHU, **changes))


def osqr(**changes: Any) -> ManifestResult:
    return read_yaml("manifest.yaml", changed(OSQR, **changes))


def native(**changes: Any) -> ManifestResult:
    return read_yaml("paddock.yaml", changed(NATIVE, **changes))


def bundle(**changes: Any) -> ManifestResult:
    return read_json("manifest.json", changed(BUNDLE, **changes))


def sound(reading: ManifestResult) -> Manifest:
    """The one plugin of a reading that found no mistakes."""
    assert reading.errors == (), [str(error) for error in reading.errors]
    return reading.single()


def the_only_error(reading: ManifestResult) -> Problem:
    assert len(reading.errors) == 1, [str(error) for error in reading.errors]
    return reading.errors[0]


def warned(reading: ManifestResult) -> list[str]:
    """The codes of the warnings that are about the text, not about files that are not there."""
    about_files = {"no_runtime", "program_missing", "schema_missing"}
    return [warning.code for warning in reading.warnings if warning.code not in about_files]


def refusal(name: str, data: bytes | str) -> Problem:
    with pytest.raises(Invalid) as caught:
        read_bytes(name, data if isinstance(data, bytes) else data.encode())
    (problem,) = caught.value.problems
    return problem


def imported(server: dict[str, Any], **more: Any) -> ImportedServer:
    reading = read_json("mcp.json", {"mcpServers": {"it": server}} | more)
    assert reading.errors == (), [str(error) for error in reading.errors]
    (plugin,) = reading.plugins
    return plugin
