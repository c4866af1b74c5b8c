"""A person's consent to an install, and the check that it covers exactly what is being installed.

A plan says what needs consent. The person's answer comes back as an `InstallConsent`: the package they were shown and
what they agreed to. The commit reads the staged files, the trusted keys and the grants again and compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Invalid, NeedsConsent
from paddock.core.ids import Tenant
from paddock.manifest.capability import Capability, missing_capabilities
from paddock.manifest.model import Manifest
from paddock.manifest.permissions import requested_capabilities
from paddock.manifest.rules.dangers import Danger, find_dangers
from paddock.plugins.install.resolve import ResolvedPackage
from paddock.plugins.package.tree import scan_tree
from paddock.plugins.store.rows import find_grant, find_plugin, find_version, granted_capabilities
from paddock.plugins.trust.signature import (
    MalformedSignature,
    Signature,
    SignatureState,
    SignatureVerdict,
    effective_tier,
    read_signature,
    verify_signature,
)
from paddock.plugins.trust.trusted_keys import describe_signer, describe_trust_loss, trusted_keys_by_id
from paddock.store.database import Transaction


class InstallConsent(Struct, frozen=True):
    """What a person was shown of a package, and what they agreed to.

    Attributes:
        digest: The digest of the package's files.
        signature: The state of its signature, as `signature_text` returns it.
        capabilities: The capabilities and secrets that they granted.
        trust_lost: The loss of trust that they were shown and accepted; empty if they accepted none.
        dangers: The dangerous capabilities that they accepted, each by itself.
    """

    digest: str
    signature: str
    capabilities: frozenset[Capability] = frozenset()
    trust_lost: str = ""
    dangers: frozenset[Capability] = frozenset()


class ConsentTerms(Struct, frozen=True):
    """What an install needs consent to.

    Attributes:
        plugin: The plugin's name.
        digest: The digest of the package's files.
        signature: The state of its signature, as `signature_text` returns it.
        capabilities: The requested capabilities and secrets that are not granted so far.
        trust_lost: A description of the trust in the signer that an upgrade gives up; empty if it gives up none.
        dangers: The dangerous ones of `capabilities`, each of which is accepted by itself.
    """

    plugin: str
    digest: str
    signature: str
    capabilities: tuple[Capability, ...]
    trust_lost: str
    dangers: tuple[Danger, ...] = ()

    def accepted(self, capabilities: Iterable[Capability], *, less_trust: bool = False) -> InstallConsent:
        """Return the consent of a person who was shown these terms and accepted each of these."""
        each = frozenset(capabilities)
        return InstallConsent(self.digest, self.signature, each, self.trust_lost if less_trust else "", each)


def signature_text(verdict: SignatureVerdict) -> str:
    """Return the state of a signature and the key that made it."""
    return f"{verdict.state.value} {verdict.key}" if verdict.key else verdict.state.value


def shown_terms(package: ResolvedPackage) -> ConsentTerms:
    """Return the terms of a package as it was resolved: what the consent screen shows."""
    return ConsentTerms(
        package.manifest.name,
        package.staged.tree.digest,
        signature_text(package.signature),
        tuple(package.missing_consents),
        package.trust_lost,
        _dangers(package.manifest, package.missing_consents, package.signature),
    )


def _dangers(manifest: Manifest, capabilities: Iterable[Capability], verdict: SignatureVerdict) -> tuple[Danger, ...]:
    return find_dangers(manifest, capabilities, trusted=verdict.state is SignatureState.VERIFIED)


def full_consent(package: ResolvedPackage) -> InstallConsent:
    """Return consent to everything about a package that the program chose itself, such as the demo's examples."""
    terms = shown_terms(package)
    return terms.accepted(terms.capabilities, less_trust=True)


class StagedContents(Struct, frozen=True):
    """Digest and signature of a staged package, as its files are now."""

    digest: str
    signature: Signature | MalformedSignature | None


def read_contents(root: Path) -> StagedContents:
    """Read the files of a staged package again. An unreadable package has no digest."""
    try:
        return StagedContents(scan_tree(root).digest, read_signature(root))
    except (Invalid, OSError):
        return StagedContents("", None)


def current_terms(tx: Transaction, tenant: Tenant, package: ResolvedPackage, contents: StagedContents) -> ConsentTerms:
    """Return the terms by the staged files, the trusted keys, the grants and the installed version as they are now."""
    manifest = package.manifest
    keys = trusted_keys_by_id(tx)
    verdict = verify_signature(contents.digest, contents.signature, keys)
    plugin = find_plugin(tx, manifest.name)
    row = find_version(tx, plugin.name, plugin.current_version) if plugin else None
    signer = describe_signer(row, {key: one.name for key, one in keys.items()}, intact=True) if row else None
    granted = granted_capabilities(find_grant(tx, tenant, manifest.name))
    missing = tuple(missing_capabilities(granted, requested_capabilities(manifest)))
    return ConsentTerms(
        manifest.name,
        contents.digest,
        signature_text(verdict),
        missing,
        describe_trust_loss(signer, verdict, effective_tier(verdict.state, manifest.trust_claim)),
        _dangers(manifest, missing, verdict),
    )


def check_same_package(terms: ConsentTerms, consent: InstallConsent) -> None:
    """Check that the person was shown this package with this signature.

    Raises:
        NeedsConsent: they were shown another one; nothing has changed.
    """
    if consent.digest != terms.digest:
        raise NeedsConsent(
            f"the files of {terms.plugin} are not the ones that you were shown",
            code="plugin.package_changed",
            hint="review it again as it is now",
        )
    if consent.signature != terms.signature:
        raise NeedsConsent(
            f"the signature of {terms.plugin} was {consent.signature} when you were asked; now it is {terms.signature}",
            code="plugin.signature_changed",
            hint="review it again as it is now",
        )


def check_consent(terms: ConsentTerms, consent: InstallConsent) -> None:
    """Check that a person's consent covers the terms.

    Raises:
        NeedsConsent: they were shown another package, or have not agreed to everything; nothing has changed.
    """
    check_same_package(terms, consent)
    if terms.trust_lost and not consent.trust_lost:
        raise NeedsConsent(
            terms.trust_lost,
            code="trust_lost",
            hint="accept the loss of trust separately",
            action=Action.of("plugin.upgrade_untrusted", plugin=terms.plugin),
        )
    if terms.trust_lost and consent.trust_lost != terms.trust_lost:
        raise NeedsConsent(
            f"you accepted another loss of trust than this: {terms.trust_lost}",
            code="plugin.trust_changed",
            hint="review it again as it is now",
        )
    missing = [str(capability) for capability in terms.capabilities if capability not in consent.capabilities]
    if missing:
        raise NeedsConsent(
            f"{terms.plugin} asks for {', '.join(missing)}, which you have not agreed to",
            hint="agree to each of them",
            details={"capabilities": missing},
        )
    unaccepted = [danger for danger in terms.dangers if danger.capability not in consent.dangers]
    if unaccepted:
        named = ", ".join(str(danger.capability) for danger in unaccepted)
        raise NeedsConsent(
            f"{terms.plugin} asks for dangerous permissions that you have not accepted: {named}",
            code="consent.dangers",
            hint="accept each of them by itself",
            details={"dangers": [danger.to_value() for danger in unaccepted]},
        )
