"""The native handshake: builds `initialize` and evaluates every possible answer. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from paddock import __version__
from paddock.core.events.contracts import (
    PluginApiMismatch,
    PluginMethodsDiffer,
    PluginNameMismatch,
    PluginVersionMismatch,
)
from paddock.core.events.plugin_runtime import PluginCapabilityOverreach, PluginProtocolViolation
from paddock.core.printable import printable
from paddock.manifest.capability import (
    Capability,
    InvalidCapability,
    NoNetwork,
    covers,
    normalise_entry,
    parse_capability,
)
from paddock.manifest.model import CallableForm, Dialect, Manifest
from paddock.runtime.protocol_adapter import HandshakeRejection, HandshakeResult
from paddock.runtime.protocols.native.method_names import API_VERSION, FEATURES

HANDSHAKE_TIMEOUT_S = 10.0
_MAX_NAMES = 1000


def initialize_params(
    manifest: Manifest, granted: Iterable[Capability], *, storage_available: bool, projects: Iterable[str]
) -> dict[str, Any]:
    """Return the host's side of the handshake. A native plugin learns its grants, so that its code need not list them.

    The parameters of a kaged plugin are those of its specification, and no others.
    """
    params = {
        "daemon_version": __version__,
        "api_version": API_VERSION,
        "plugin_name": manifest.name,
        "storage_available": storage_available,
        "projects": list(projects),
    }
    return params if manifest.dialect is Dialect.KAGED else {**params, "capabilities": [str(one) for one in granted]}


def evaluate_reply(
    manifest: Manifest, granted: Iterable[Capability], answer: Any
) -> HandshakeResult | HandshakeRejection:
    """Evaluate the answer to `initialize` of a plugin with this manifest."""
    if not isinstance(answer, dict):
        return malformed_rejection(manifest, "the answer to initialize is no object")
    fields = cast("dict[str, Any]", answer)
    invalid_fields = [name for name in ("name", "version") if not isinstance(fields.get(name), str)]
    if not isinstance(fields.get("api_version"), int) or isinstance(fields.get("api_version"), bool):
        invalid_fields.append("api_version")
    lists = {name: fields.get(name, []) for name in ("methods", "notifications", "capabilities_used", "features")}
    invalid_fields += [
        name for name, value in lists.items() if not _is_name_list(value, maps=name == "capabilities_used")
    ]
    if invalid_fields:
        return malformed_rejection(manifest, f"the answer to initialize has no usable {', '.join(invalid_fields)}")
    if fields["api_version"] != API_VERSION:
        return HandshakeRejection(
            "initialize.api_mismatch",
            f"it speaks version {fields['api_version']} of the plugin API, the host speaks {API_VERSION}",
            PluginApiMismatch(name=manifest.name, expected=API_VERSION, received=fields["api_version"]),
        )
    if fields["name"] != manifest.name:
        return HandshakeRejection(
            "initialize.name_mismatch",
            f"it calls itself {printable(fields['name'], 80)!r}",
            PluginNameMismatch(name=manifest.name, received=printable(fields["name"], 200)),
        )
    if fields["version"] != manifest.version:
        return HandshakeRejection(
            "initialize.version_mismatch",
            f"it says it is version {printable(fields['version'], 80)!r}, its manifest says {manifest.version!r}",
            PluginVersionMismatch(
                name=manifest.name, expected=manifest.version, received=printable(fields["version"], 200)
            ),
        )
    overreach = _undeclared_capabilities(granted, lists["capabilities_used"])
    if overreach:
        return HandshakeRejection(
            "initialize.capability_overreach",
            f"it claims capabilities that it was not granted: {', '.join(overreach[:5])}",
            PluginCapabilityOverreach(
                name=manifest.name, claimed=overreach, allowed=tuple(str(capability) for capability in granted)
            ),
            **_declaration_hints(_undeclared_capabilities(manifest.capabilities, lists["capabilities_used"])),
        )
    tools = fields.get("tools")
    return _build_result(manifest, lists, tools if _is_name_list(tools, maps=False) else None)


def _declaration_hints(undeclared: tuple[str, ...]) -> dict[str, str]:
    """Return the hint for capabilities that a program claims and its manifest does not declare."""
    if not undeclared:
        return {}
    names = ", ".join(f"`{capability}`" for capability in undeclared[:5])
    hint = f"the plugin's author has to add {names} to `capabilities` in the manifest, or take it out of"
    return {"hint": f"{hint} `capabilities_used`"}


def malformed_rejection(manifest: Manifest, detail: str) -> HandshakeRejection:
    """Build the rejection of a handshake that is malformed or refused."""
    event = PluginProtocolViolation(name=manifest.name, violation_type="handshake", detail=printable(detail, 500))
    return HandshakeRejection("protocol_violation", detail, event)


def _build_result(manifest: Manifest, lists: Mapping[str, Any], served_tools: list[str] | None) -> HandshakeResult:
    # Methods are confirmed by name; tools only if a plugin lists them, as our SDK does. Hooks and all other tools
    # follow from the manifest.
    declared = {spec.name for spec in manifest.callables if spec.form is CallableForm.METHOD}
    tools = {spec.name for spec in manifest.callables if spec.form is CallableForm.TOOL}
    offered = set(lists["methods"])
    as_methods = {name for name in tools if f"{manifest.name}.{name}" in offered}
    extra = offered - declared - {f"{manifest.name}.{name}" for name in as_methods}
    missing = declared - offered
    if served_tools is not None:
        extra |= set(served_tools) - tools
        missing |= tools - set(served_tools) - as_methods
    warning = None
    if extra or missing:
        warning = PluginMethodsDiffer(
            name=manifest.name,
            extra=tuple(printable(name, 128) for name in sorted(extra)[:20]),
            missing=tuple(sorted(missing)),
        )
    return HandshakeResult(
        features=frozenset(lists["features"]) & FEATURES,
        served_count=len(declared & offered),
        missing_callables=frozenset(missing),
        undeclared_methods=warning.extra if warning else (),
        warning=warning,
    )


def _is_name_list(value: Any, *, maps: bool) -> bool:
    """Whether the value is a short list of names (a capability may also have YAML's map form, `{"net": []}`)."""
    if not isinstance(value, list) or len(cast("list[Any]", value)) > _MAX_NAMES:
        return False
    entries = cast("list[Any]", value)
    return all(isinstance(entry, str) or (maps and isinstance(entry, dict)) for entry in entries)


def _undeclared_capabilities(granted: Iterable[Capability], claimed: list[Any]) -> tuple[str, ...]:
    granted_list = list(granted)
    undeclared: list[str] = []
    for entry in claimed:
        try:
            capabilities = [parse_capability(text) for text in normalise_entry(entry)]
        except InvalidCapability:
            # An invalid capability cannot have been granted.
            undeclared.append(printable(str(entry), 200))
            continue
        undeclared += [
            str(capability)
            for capability in capabilities
            if not isinstance(capability, NoNetwork) and not any(covers(held, capability) for held in granted_list)
        ]
    return tuple(undeclared[:50])
