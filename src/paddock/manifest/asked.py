"""All that somebody says yes to before a plugin may run: what it may reach, and each secret with where it may go. Pure.

A secret is declared by name under `secrets`, and bound to hosts under `secret_hosts`. A yes to it is kept, compared and
asked for again like one to a capability, so that no later version has another secret, or takes one elsewhere, unseen.
"""

from __future__ import annotations

from collections.abc import Iterator

from paddock.manifest.capability import Capability, HostService, SecretUse
from paddock.manifest.model import Manifest


def asked_of(manifest: Manifest) -> tuple[Capability, ...]:
    """The capabilities, and the uses of secrets that come with `host:secrets`."""
    return (*manifest.capabilities, *_uses(manifest))


def _uses(manifest: Manifest) -> Iterator[SecretUse]:
    if HostService("secrets") not in manifest.capabilities:
        return  # it is given none
    for name in dict.fromkeys(manifest.secrets):
        hosts = manifest.secret_hosts.get(name)
        if hosts is None:
            yield SecretUse(name)
        else:
            yield from (SecretUse(name, host) for host in dict.fromkeys(hosts))
