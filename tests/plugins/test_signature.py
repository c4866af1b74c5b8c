"""Who signed a package, and what that is worth here."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from paddock.core.errors import NotFound, OperatorError
from paddock.plugins.package.source import parse_source
from paddock.plugins.package.stage import stage_package
from paddock.plugins.package.tree import scan_tree
from paddock.plugins.trust.signature import (
    MalformedSignature,
    Signature,
    SignatureState,
    TrustedKey,
    effective_tier,
    parse_signature,
    read_signature,
    sign_package,
    verify_signature,
)
from paddock.plugins.trust.signing_keys import KeyId, generate_key, key_id, read_public_key


def trust(*texts: str) -> dict[KeyId, TrustedKey]:
    keys = [read_public_key(text) for text in texts]
    return {key_id(key): TrustedKey(key, f"owner {number}") for number, key in enumerate(keys)}


@pytest.fixture
def public(tmp_path: Path) -> str:
    return generate_key(tmp_path / "key.pem")


@pytest.mark.req("O-11", "another key is not trusted")
def test_the_four_states_of_a_signature(plugin: Path, tmp_path: Path, public: str) -> None:
    digest = scan_tree(plugin).digest
    assert verify_signature(digest, read_signature(plugin), trust(public)).state is SignatureState.UNSIGNED

    sign_package(plugin, tmp_path / "key.pem")
    assert scan_tree(plugin).digest == digest
    verified = verify_signature(digest, read_signature(plugin), trust(public))
    assert (verified.state, verified.signer) == (SignatureState.VERIFIED, "owner 0")
    stranger = verify_signature(digest, read_signature(plugin), trust(generate_key(tmp_path / "other.pem")))
    assert (stranger.state, stranger.signer) == (SignatureState.COMMUNITY_SIGNED, None)
    assert stranger.key == verified.key

    (plugin / "code" / "main.py").write_text("evil")
    modified = verify_signature(scan_tree(plugin).digest, read_signature(plugin), trust(public))
    assert modified.state is SignatureState.MODIFIED
    assert "not the ones that were signed" in modified.reason


@pytest.mark.req("B-04")
def test_a_signature_copied_to_another_tree_or_key_is_modified(plugin: Path, tmp_path: Path, public: str) -> None:
    signature = sign_package(plugin, tmp_path / "key.pem")
    other_digest = "sha256:" + "0" * 64
    moved = Signature(signature.public_key, other_digest, signature.signature)
    assert verify_signature(other_digest, moved, trust(public)).state is SignatureState.MODIFIED
    impostor = read_public_key(generate_key(tmp_path / "other.pem"))
    renamed = Signature(impostor, signature.digest, signature.signature)
    assert verify_signature(signature.digest, renamed, trust(impostor.text)).state is SignatureState.MODIFIED


@pytest.mark.req("O-11", "another key is not trusted")
def test_a_key_that_only_shares_the_short_id_of_a_trusted_one_is_not_trusted(
    plugin: Path, tmp_path: Path, public: str
) -> None:
    signature = sign_package(plugin, tmp_path / "key.pem")
    other = TrustedKey(read_public_key(generate_key(tmp_path / "other.pem")), "somebody")
    verdict = verify_signature(signature.digest, signature, {key_id(read_public_key(public)): other})
    assert verdict.state is SignatureState.COMMUNITY_SIGNED


def test_an_author_signs_what_a_user_gets_whatever_lies_around(plugin: Path, tmp_path: Path, public: str) -> None:
    (plugin / ".git").mkdir()
    (plugin / ".git" / "config").touch()
    (plugin / "code" / "__pycache__").mkdir()
    (plugin / "code" / "__pycache__" / "main.pyc").touch()
    sign_package(plugin, tmp_path / "key.pem")
    assert sorted(path.name for path in plugin.iterdir()) == [".git", "code", "paddock.sig", "paddock.yaml"]
    with stage_package(parse_source(str(plugin)), tmp_path / "s") as staged:
        verdict = verify_signature(staged.tree.digest, read_signature(staged.root), trust(public))
        assert verdict.state is SignatureState.VERIFIED


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[" * 10_000,
        b"[]",
        b'{"version": 2}',
        b"x" * 20_000,
        json.dumps(
            {"version": 1, "algorithm": "ed25519", "public_key": "AAAA", "digest": "", "signature": "AAAA"}
        ).encode(),
    ],
    ids=range(7),
)
def test_a_malformed_signature_counts_as_modified_and_says_why(content: bytes) -> None:
    signature = parse_signature(content)
    assert isinstance(signature, MalformedSignature)
    verdict = verify_signature("sha256:x", signature, {})
    assert verdict.state is SignatureState.MODIFIED
    assert verdict.reason


def test_a_signature_that_is_a_link_is_not_followed(plugin: Path, tmp_path: Path, public: str) -> None:
    sign_package(plugin, tmp_path / "key.pem")
    (plugin / "paddock.sig").rename(tmp_path / "elsewhere")
    (plugin / "paddock.sig").symlink_to(tmp_path / "elsewhere")
    assert isinstance(read_signature(plugin), MalformedSignature)


@pytest.mark.req("O-11", "a claim alone is not")
@pytest.mark.parametrize("claimed", [None, "verified", "community", "personal", "nonsense"])
def test_a_claimed_tier_never_raises_the_one_that_was_earned(claimed: str | None) -> None:
    order = ["personal", "community", "verified"]
    earned = {
        SignatureState.VERIFIED: "verified",
        SignatureState.COMMUNITY_SIGNED: "community",
        SignatureState.UNSIGNED: "personal",
        SignatureState.MODIFIED: "personal",
    }
    for state, most in earned.items():
        tier = effective_tier(state, claimed)
        assert order.index(tier) <= order.index(most)
        if claimed not in order or order.index(claimed) >= order.index(most):
            assert tier == most
        else:
            assert tier == claimed


def test_a_new_key_is_private_and_never_overwrites(tmp_path: Path, public: str) -> None:
    path = tmp_path / "key.pem"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(OperatorError):
        generate_key(path)
    assert path.read_bytes() == before
    assert public.startswith("ed25519:")


def test_a_public_key_is_read_in_every_common_form(tmp_path: Path, public: str) -> None:
    key = read_public_key(public)
    loaded = Ed25519PublicKey.from_public_bytes(key.raw)
    pem = loaded.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    ssh = loaded.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    (tmp_path / "key.pub").write_text(ssh + " someone@example\n")
    for form in (public, pem, ssh, f"  {public}\n", tmp_path / "key.pub", str(tmp_path / "key.pub")):
        assert read_public_key(form) == key


def test_what_is_not_an_ed25519_public_key_is_refused(tmp_path: Path, public: str) -> None:
    elliptic = generate_private_key(SECP256R1()).public_key()
    pem = elliptic.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    (tmp_path / "big").write_bytes(bytes(20_000))
    wrong = ["", "ed25519:AAAA", "ed25519:%%%", "ssh-ed25519 AAAA", "ssh-rsa AAAA", pem, "nowhere"]
    for key in [*wrong, tmp_path / "key.pem", tmp_path / "big", tmp_path]:
        with pytest.raises(OperatorError):
            read_public_key(key)


def test_a_private_key_that_others_can_read_or_of_another_kind_is_not_used(
    plugin: Path, tmp_path: Path, public: str
) -> None:
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(OperatorError) as caught:
        sign_package(plugin, tmp_path / "key.pem")
    assert caught.value.hint.startswith("chmod 600")
    (tmp_path / "text.pem").write_text("hello")
    (tmp_path / "text.pem").chmod(0o600)
    with pytest.raises(OperatorError):
        sign_package(plugin, tmp_path / "text.pem")
    with pytest.raises(NotFound):
        sign_package(plugin, tmp_path / "nowhere")
    assert read_signature(plugin) is None


def test_importing_signatures_does_not_load_cryptography() -> None:
    program = "import sys, paddock.plugins.trust.signature; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
