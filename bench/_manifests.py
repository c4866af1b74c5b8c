"""Sound manifests of every dialect, as big as real ones are; number `n` is always the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One manifest, the schema it is read by, and the other files that its package needs."""

    form: str
    file: str
    text: str
    beside: dict[str, str]

    def write(self, directory: Path) -> None:
        for name, text in {self.file: self.text, **self.beside}.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def package(number: int) -> Sample:
    """The manifest of that number for a package; neighbours differ in dialect."""
    return _PACKAGES[number % len(_PACKAGES)](number)


def sample(number: int) -> Sample:
    """The same with the two kinds of file that only list servers."""
    writers = (*_PACKAGES, _servers, _vscode)
    return writers[number % len(writers)](number)


def _parameters(number: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 400, "description": "What to look for"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50 + number % 50, "default": 10},
            "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"}, "maxItems": 20},
            "since": {"type": "string", "format": "date-time"},
            "order": {"enum": ["newest", "oldest", "best"]},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def _answer() -> dict[str, Any]:
    item = {"type": "object", "properties": {"id": {"type": "string"}, "score": {"type": "number"}}}
    return {"type": "object", "properties": {"items": {"type": "array", "items": item}}, "required": ["items"]}


def _config() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "depth": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            "tone": {"type": "string", "enum": ["warm", "plain", "formal"], "default": "plain"},
            "folder": {"type": "string", "default": "notes"},
        },
        "additionalProperties": False,
    }


def _secrets() -> dict[str, Any]:
    return {"type": "object", "properties": {"api_key": {"type": "string", "x-secret": True}}, "required": ["api_key"]}


def _knobs() -> dict[str, Any]:
    return {
        "depth": {
            "type": "int_range",
            "label": "Depth",
            "binds_to": "config.depth",
            "min": 1,
            "max": 9,
            "step": 1,
            "default": 3,
        },
        "tone": {
            "type": "enum",
            "label": "Tone",
            "binds_to": "config.tone",
            "values": ["warm", "plain", "formal"],
            "default": "plain",
        },
    }


def _tools(number: int, key: str) -> list[dict[str, Any]]:
    names = ("search", "append", "summarise")
    return [
        {"name": name, "description": f"{name.title()} the notes of shelf {number}", key: _parameters(number + index)}
        for index, name in enumerate(names)
    ]


def _native(number: int) -> Sample:
    value = {
        "paddock": 1,
        "name": f"shelf-{number}",
        "version": f"1.{number % 10}.0",
        "title": f"Shelf {number}",
        "description": "Keeps notes on a shelf and finds them again.",
        "author": "Example Labs",
        "license": "Apache-2.0",
        "homepage": "https://example.com/shelf",
        "runtime": {"command": ["python3", "main.py"], "env": {"SHELF": str(number)}},
        "capabilities": ["net:api.example.com:443"],
        "tools": [{**tool, "effects": ["read_only"]} for tool in _tools(number, "input_schema")],
        "methods": ["shelf.reindex", "shelf.count"],
        "config_schema": _config(),
        "system_config_schema": _secrets(),
        "knobs": _knobs(),
        "timing": {"shutdown_sec": 5, "call_sec": 30},
    }
    return Sample("paddock", "paddock.yaml", _yaml(value), {"main.py": "print('ready')\n"})


def _kaged(number: int) -> Sample:
    value = {
        "kaged_api": 1,
        "name": f"ledger-{number}",
        "version": f"0.{number % 10}.2",
        "description": "Writes down what was said, and reads it back when asked.",
        "author": "Example Labs",
        "license": "MIT",
        "command": ["node", "dist/main.js"],
        "capabilities": ["net:[]"],
        "hooks": ["on_session_start", "on_session_idle"],
        "tools": _tools(number, "parameters_schema"),
        "methods": ["ledger.status", {"name": "ledger.query", "params_schema": _parameters(number)}],
        "config_schema": _config(),
        "system_config_schema": _secrets(),
        "knobs": _knobs(),
        "hook_timeout_sec": 10,
    }
    return Sample("kaged", "kaged-plugin.yaml", _yaml(value), {"dist/main.js": "process.stdin.resume();\n"})


def _kernel(number: int) -> Sample:
    value = {
        "name": f"Email.Draft{number}",
        "type": "operator",
        "version": f"1.2.{number % 100}",
        "owner": "example-labs",
        "description": "Writes the draft of a letter from a template.",
        "schemas": {"input": "schemas/input.v1.json", "output": "schemas/output.v1.json"},
        "requires": {
            "tools": ["Professor.Summarize@1.x", "Document.Process@^2.1"],
            "capabilities": [],
            "context_fields": ["student.profile", "professor.entity", "request.scope"],
        },
        "scopes": ["email:generate"],
        "effects": ["produce_outcome"],
        "policy_tags": ["draft_only", "pii_allowed"],
        "observability": {"log_level": "info", "emit_samples": False},
    }
    schemas = {"schemas/input.v1.json": _parameters(number), "schemas/output.v1.json": _answer()}
    beside = {name: _json(schema) for name, schema in schemas.items()}
    beside |= {
        "paddock.yaml": "paddock: 1\nruntime:\n  module: draft:execute\n",
        "draft.py": "def execute(call): ...\n",
    }
    return Sample("kernel", "manifest.json", _json(value), beside)


def _osqr(number: int) -> Sample:
    value = {
        "plugin": {
            "name": f"Formula {number}",
            "version": f"2.{number % 10}.0",
            "creator": "Example Labs",
            "description": "Speaks as a patient mentor for families that run a business together.",
            "trust_tier": "community",
        },
        "constitutional_compliance": {
            "user_sovereignty": "preserved",
            "safety_guardrails": "preserved",
            "identity_core": "preserved",
        },
        "behavioral_modifications": {
            "communication_style": {
                "description": "Warm, slow, with questions before answers.",
                "intensity": "moderate",
            },
            "proactive_engagement": {
                "can_initiate": True,
                "trigger_topics": ["succession", "family council", "next generation"],
                "confidence_threshold": 0.7,
            },
            "response_formatting": {"default_length": "standard", "emoji_usage": "none"},
        },
        "capabilities": {
            "tools": _tools(number, "inputSchema"),
            "prompts": [{"name": "kickoff", "description": "Opens a meeting", "arguments": [{"name": "topic"}]}],
        },
        "data_access": {"pkv_read": True, "pkv_write": False, "memory_integration": "reference_only"},
    }
    return Sample("osqr", "plugin.yaml", _yaml(value), {})


def _shu(number: int) -> Sample:
    value = {
        "name": f"gmail_digest_{number}",
        "version": f"3.0.{number % 100}",
        "display_name": f"Mail digest {number}",
        "description": "Sums up the mail of a day.",
        "author": "Example Labs",
        "entrypoints": {f"gmail_digest_{number}": "digest.plugin:DigestPlugin"},
        "capabilities": ["http", "identity", "kb"],
        "required_identities": [{"provider": "google", "mode": "user", "scopes": ["gmail.readonly"]}],
        "op_auth": {"list": {"provider": "google", "mode": "user", "scopes": ["gmail.readonly"]}},
        "default_feed_op": "list",
        "allowed_feed_ops": ["list", "digest"],
        "params_schema": _parameters(number),
        "output_schema": _answer(),
    }
    beside = {"digest/__init__.py": "", "digest/plugin.py": "class DigestPlugin:\n    pass\n"}
    return Sample("shu", "manifest.py", f"PLUGIN_MANIFEST = {value!r}\n", beside)


def _bundle(number: int) -> Sample:
    value = {
        "manifest_version": "0.3",
        "name": f"weather-{number}",
        "version": f"0.4.{number % 100}",
        "display_name": f"Weather {number}",
        "description": "Tells the weather of a place.",
        "author": {"name": "Example Labs", "url": "https://example.com"},
        "license": "MIT",
        "server": {
            "type": "node",
            "entry_point": "server/index.js",
            "mcp_config": {
                "command": "node",
                "args": ["${__dirname}/server/index.js", "${user_config.units}"],
                "env": {"WEATHER_KEY": "${user_config.api_key}"},
            },
        },
        "tools": [{"name": name, "description": f"Gives the {name}"} for name in ("forecast", "warnings", "history")],
        "user_config": {
            "api_key": {
                "type": "string",
                "title": "Key",
                "description": "From us",
                "sensitive": True,
                "required": True,
            },
            "units": {"type": "string", "title": "Units", "description": "Metric or not", "default": "metric"},
        },
    }
    return Sample("mcpb", "manifest.json", _json(value), {"server/index.js": "process.stdin.resume();\n"})


def _registry(number: int) -> Sample:
    value = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-09-29/server.schema.json",
        "name": f"com.example/atlas-{number}",
        "description": "Finds places on a map.",
        "version": f"1.0.{number % 100}",
        "repository": {"url": "https://github.com/example/atlas", "source": "github"},
        "packages": [
            {
                "registryType": "npm",
                "identifier": "@example/atlas",
                "version": f"1.0.{number % 100}",
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "named", "name": "--region", "value": "eu"}],
                "environmentVariables": [{"name": "ATLAS_KEY", "description": "A key", "isSecret": True}],
            }
        ],
    }
    return Sample("mcp-server", "server.json", _json(value), {})


def _servers(number: int) -> Sample:
    value = {
        "mcpServers": {
            f"files-{number}": {"command": "npx", "args": ["-y", "@example/files", "/srv"], "env": {"LEVEL": "info"}},
            f"search-{number}": {"command": "uvx", "args": ["example-search"], "env": {"SEARCH_KEY": "${SEARCH_KEY}"}},
            f"remote-{number}": {"url": "https://mcp.example.com/v1", "headers": {"Authorization": "Bearer abc"}},
        }
    }
    return Sample("mcp-servers", ".mcp.json", _json(value), {})


def _vscode(number: int) -> Sample:
    value = {
        "inputs": [{"type": "promptString", "id": "key", "description": "The key", "password": True}],
        "servers": {
            f"tickets-{number}": {
                "type": "http",
                "url": "https://example.com/mcp",
                "headers": {"X-Key": "${input:key}"},
            },
            f"notes-{number}": {
                "type": "stdio",
                "command": "node",
                "args": ["notes.js"],
                "env": {"KEY": "${input:key}"},
            },
        },
    }
    return Sample("vscode-mcp", "mcp.json", _json(value), {})


_PACKAGES: tuple[Callable[[int], Sample], ...] = (_native, _kaged, _kernel, _osqr, _shu, _bundle, _registry)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _yaml(value: Any) -> str:
    # Imported here: who needs no YAML should not pay for it.
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
