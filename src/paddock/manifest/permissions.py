"""Everything a person consents to before a plugin may run: capabilities, and secrets with their recipients. Pure.

A secret is declared by name under `secrets`, and bound to hosts under `secret_hosts`. Consent to it is stored, compared
and renewed like consent to a capability, so that no later version gets another secret, or sends one elsewhere, unseen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import OperatorError
from paddock.manifest.capability import (
    Capability,
    Execute,
    FileAccess,
    HostService,
    NetworkAccess,
    SecretUse,
    StorageAccess,
    covers,
    is_harmless,
    merge_capabilities,
)
from paddock.manifest.effects import CHANGING_CLAIMS, Effect, claim_of
from paddock.manifest.model import CallableSpec, Manifest, PluginKind, RemoteRuntime
from paddock.manifest.syntax.fields import ProblemReport

_READ_ONLY = (Effect.READ_ONLY,)


def requested_capabilities(manifest: Manifest) -> tuple[Capability, ...]:
    """Return the capabilities, and the secret uses that come with `host:secrets`."""
    return (*manifest.capabilities, *_secret_uses(manifest))


def check_grants_requested(
    grants: Iterable[Capability], requested: Sequence[Capability], plugin: str, hint: str, action: Action | None = None
) -> None:
    """Reject a grant that the plugin does not request: it would change nothing, and look as if it had.

    Args:
        grants: What a person means to grant.
        requested: What the plugin requests.
        plugin: Its name and version.
        hint, action: How to grant more than it requests.

    Raises:
        OperatorError: `capability.not_asked`, one of them is not requested.
    """
    unrequested = [grant for grant in grants if not any(covers(one, grant) for one in requested)]
    if unrequested:
        raise OperatorError(
            f"{plugin} does not ask for {', '.join(map(str, unrequested))}; nothing was changed",
            code="capability.not_asked",
            hint=hint,
            action=action,
        )


def _secret_uses(manifest: Manifest) -> Iterator[SecretUse]:
    if HostService("secrets") not in manifest.capabilities:
        return  # without that service it gets no secrets
    for name in dict.fromkeys(manifest.secrets):
        hosts = manifest.secret_hosts.get(name)
        if hosts is None:
            yield SecretUse(name)
        else:
            yield from (SecretUse(name, host) for host in dict.fromkeys(hosts))


def with_capabilities(manifest: Manifest, added: Sequence[Capability]) -> Manifest:
    """Return the manifest with additional capabilities.

    The version changes too: two packages with different permissions never share a version.
    """
    capabilities = merge_capabilities(manifest.capabilities, added)
    if capabilities == manifest.capabilities:
        return manifest
    digest = hashlib.sha256("\n".join(sorted(map(str, capabilities))).encode()).hexdigest()
    separator = "." if "+" in manifest.version else "+"
    return replace(manifest, version=f"{manifest.version}{separator}{digest[:8]}", capabilities=capabilities)


def callable_effects(manifest: Manifest, spec: CallableSpec) -> tuple[Effect, ...]:
    """Return the declared effects; else read-only if the cage prevents every change; else unknown.

    Its annotations never relax a check. What says itself that it changes something is not taken for read-only.
    """
    if spec.effects is not None:
        effects = spec.effects or _READ_ONLY
    elif not isinstance(manifest.runtime, RemoteRuntime) and is_harmless(manifest.capabilities):
        effects = _READ_ONLY
    else:
        return (Effect.UNKNOWN,)
    return (Effect.UNKNOWN,) if effects == _READ_ONLY and claim_of(spec.annotations) in CHANGING_CLAIMS else effects


PASSIVE_KINDS = frozenset({PluginKind.AGENT, PluginKind.TOOL, PluginKind.ADAPTER})
# Services, and modes of services, whose purpose is to store or change something.
_STATEFUL_FAMILIES = frozenset({"cache", "cursor", "rate", "scheduler", "storage"})
_WRITE_MODES = frozenset({("memory", "full"), ("vault", "write")})


def exceeds_kind(kind: PluginKind, capability: Capability) -> bool:
    """Whether a plugin of this kind must not have the capability."""
    if kind not in PASSIVE_KINDS:
        return False
    match capability:
        case NetworkAccess() | Execute() | FileAccess(mode="write") | StorageAccess(mode="write"):
            return True
        case HostService(family, mode):
            return family in _STATEFUL_FAMILIES or (family, mode) in _WRITE_MODES
        case _:
            return False


def check_kind_boundary(report: ProblemReport, manifest: Manifest) -> None:
    """Report every requested capability that the plugin's kind must not have."""
    for capability in manifest.capabilities:
        if exceeds_kind(manifest.kind, capability):
            report.error(
                ("capabilities",),
                f"a plugin of kind {manifest.kind} may not have {capability}",
                "only operators act and keep anything: make it an operator, or take what it needs from its input",
                "kind_boundary",
            )


def limit_to_kind(kind: PluginKind, capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    """Return the capabilities that a plugin of this kind may have."""
    return tuple(capability for capability in capabilities if not exceeds_kind(kind, capability))
