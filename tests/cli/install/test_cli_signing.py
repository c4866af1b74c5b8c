"""Keys and signatures from the command line: who signed, whose word counts, and what a claim is worth."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from fixtures.commands import Paddock
from fixtures.packages import native, osqr, write_file, zipped


@pytest.mark.req("O-11", "verified is signed by a trusted key")
@pytest.mark.req("B-04")
def test_a_package_is_signed_trusted_installed_and_loses_its_standing_with_the_key(
    paddock: Paddock, source: Path
) -> None:
    key = source / "signing.pem"
    made = paddock("key", "add", key, "--json").json
    assert key.stat().st_mode & 0o777 == 0o600
    package = native(source / "n", trust_claim="verified", capabilities=["net:api.example.com:443"])
    signed = paddock("plugin", "sign", package, "--key", key, "--json").json
    assert signed["key_id"] == made["key_id"]

    # Nobody trusts it yet: a signature alone says who, not whether to believe them.
    waits = paddock("plugin", "install", package, code=4)
    assert "community-signed" in waits.err
    assert "community (it claims to be verified)" in waits.err
    refused = paddock.quickly("plugin", "install", package, "--yes", code=4)  # each danger has to be named
    assert "No key that you trust signed the package" in refused.err

    assert paddock.quickly("key", "list").out == ""
    paddock("key", "trust", made["public_key"], "--label", "Example Labs")
    assert [one["label"] for one in paddock("key", "list", "--json").json["keys"]] == ["Example Labs"]
    said = paddock("plugin", "install", package, "--yes")
    assert "verified — " in said.err
    assert "Example Labs" in said.err
    assert paddock.listed()["notes"]["tier"] == "verified"
    assert "signed by Example Labs" in paddock.quickly("plugin", "list", "--verbose").out

    paddock("key", "remove", "Example Labs", code=4)
    paddock("key", "remove", "Example Labs", "--yes")
    row = paddock.listed()["notes"]
    assert (row["tier"], row["signature"].partition(":")[0]) == ("community", "community-signed")
    paddock.quickly("key", "remove", "Example Labs", code=3)


@pytest.mark.req("B-04")
def test_a_package_tampered_with_after_signing_is_refused(paddock: Paddock, source: Path) -> None:
    key = source / "signing.pem"
    paddock.quickly("key", "add", key)
    package = native(source / "n")
    paddock.quickly("plugin", "sign", package, "--key", key)
    write_file(package / "more.py", "")
    said = paddock("plugin", "install", zipped(package, source / "n.zip"), "--yes", "--json", code=7)

    assert said.error["code"] == "signature.mismatch"
    assert "get the package again" in said.err
    assert paddock.listed() == {}


def test_the_signature_travels_in_the_archive(paddock: Paddock, source: Path) -> None:
    key = source / "signing.pem"
    public = paddock.quickly("key", "add", key, "--json").json["public_key"]
    write_file(source / "labs.pub", public + "\n")
    paddock.quickly("key", "trust", source / "labs.pub")
    package = native(source / "n")
    paddock.quickly("plugin", "sign", package, "--key", key)
    paddock.quickly("plugin", "install", zipped(package, source / "n.zip"), "--yes")

    assert paddock.listed()["notes"]["signature"] == "verified: signed by labs"
    # Repairing brings the signature back as well, and the standing with it.
    for path in (paddock.trees / "notes" / "1.0.0").iterdir():
        path.unlink()
    assert paddock.listed()["notes"]["signature"].startswith("modified")
    paddock.quickly("plugin", "repair", "notes")
    assert paddock.listed()["notes"]["signature"] == "verified: signed by labs"


@pytest.mark.req("O-11", "a claim alone is not")
def test_a_manifest_that_claims_to_be_verified_is_personal_until_somebody_signed_it(
    paddock: Paddock, source: Path
) -> None:
    said = paddock("plugin", "install", osqr(source, tier="verified"), "--yes", "--grant", "net:api.openai.com:443")

    assert "personal (it claims to be verified)" in said.err
    assert paddock.listed()["fourth-formula"]["tier"] == "personal"


def test_a_private_key_is_never_overwritten_and_nonsense_is_no_key(paddock: Paddock, source: Path) -> None:
    key = source / "signing.pem"
    paddock.quickly("key", "add", key)
    before = key.read_bytes()
    paddock.quickly("key", "add", key, code=6)
    assert key.read_bytes() == before
    paddock.quickly("key", "trust", "ed25519:nonsense", code=6)
    paddock.quickly("plugin", "sign", native(source / "n"), "--key", source / "absent.pem", code=3)
    assert not (source / "n" / "paddock.sig").exists()


@pytest.mark.parametrize("now", ["unsigned", "community-signed"])
def test_losing_the_signature_you_trust_needs_a_yes_of_its_own(paddock: Paddock, source: Path, now: str) -> None:
    key = source / "signing.pem"
    made = paddock.quickly("key", "add", key, "--json").json
    paddock.quickly("key", "trust", made["public_key"], "--label", "Example Labs")
    first = native(source / "one")
    paddock.quickly("plugin", "sign", first, "--key", key)
    paddock.quickly("plugin", "install", first, "--yes")
    second = native(source / "two", version="1.1.0")
    if now == "community-signed":
        paddock.quickly("key", "add", source / "other.pem")
        paddock.quickly("plugin", "sign", second, "--key", source / "other.pem")

    said = paddock("plugin", "upgrade", "notes", second, "--yes", "--json", code=4)
    assert said.error["code"] == "trust_lost"
    assert f"the installed version is verified (signed by Example Labs); this one is {now}" in said.err
    assert "--less-trust --yes" in said.err
    assert paddock.listed()["notes"]["version"] == "1.0.0"
    paddock.on_terminal("plugin", "upgrade", "notes", second, answers=["y", "n"], code=4)
    assert paddock.listed()["notes"]["version"] == "1.0.0"
    paddock("plugin", "upgrade", "notes", second, "--yes", "--less-trust")
    assert paddock.listed()["notes"]["version"] == "1.1.0"


def test_a_signature_that_comes_later_is_kept_without_a_new_version(paddock: Paddock, source: Path) -> None:
    package = native(source / "n")
    paddock.quickly("plugin", "install", package, "--yes")
    key = source / "signing.pem"
    paddock.quickly("key", "add", key)
    paddock.quickly("plugin", "sign", package, "--key", key)

    assert paddock("plugin", "install", package, "--json").json["action"] == "signed"
    row = paddock.listed()["notes"]
    assert (row["state"], row["tier"]) == ("disabled", "community")
    (paddock.home / "data" / "plugins" / "notes" / "1.0.0" / "run.sh").unlink()
    paddock.quickly("plugin", "repair", "notes")
    assert paddock.listed()["notes"]["tier"] == "community"


def test_check_says_what_install_would_say_about_links_and_signatures(paddock: Paddock, source: Path) -> None:
    key = source / "signing.pem"
    paddock.quickly("key", "add", key)
    package = native(source / "n")
    paddock.quickly("plugin", "sign", package, "--key", key)
    paddock.quickly("plugin", "check", package)
    write_file(package / "more.py", "")
    said = paddock.quickly("plugin", "check", package, "--json", code=6)
    assert [problem["path"] for problem in said.json["errors"]] == ["paddock.sig"]
    (package / "link").symlink_to("/etc/passwd")
    said = paddock.quickly("plugin", "check", package, "--json", code=6)
    assert "link" in [problem["path"] for problem in said.json["errors"]]


def test_the_public_half_of_any_key_file_is_shown_and_can_be_trusted(paddock: Paddock, source: Path) -> None:
    made = paddock.quickly("key", "add", source / "signing.pem", "--json").json
    assert paddock("key", "show", source / "signing.pem").out == made["public_key"] + "\n"
    shown = paddock.quickly("key", "show", source / "signing.pem", "--json").json
    assert (shown["public_key"], shown["key_id"]) == (made["public_key"], made["key_id"])

    own = Ed25519PrivateKey.generate()
    ssh = serialization.PrivateFormat.OpenSSH
    private = own.private_bytes(serialization.Encoding.PEM, ssh, serialization.NoEncryption())
    public = own.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write_file(source / "id_ed25519", private.decode()).chmod(0o600)
    write_file(source / "id_ed25519.pub", f"{public.decode()} zoë@example\n")
    both = [paddock.quickly("key", "show", source / name).out for name in ("id_ed25519", "id_ed25519.pub")]
    assert both[0] == both[1]
    assert "PRIVATE" not in both[0]
    paddock.quickly("plugin", "sign", native(source / "n"), "--key", source / "id_ed25519")

    refused = paddock("key", "trust", source / "signing.pem", code=6)
    assert f"paddock key show {source / 'signing.pem'}" in refused.err
    paddock("key", "trust", both[0].strip(), "--label", "me")


def test_an_unsuitable_key_is_told_which_kind_is_needed(paddock: Paddock, source: Path) -> None:
    rsa = generate_private_key(65537, 2048)
    public = rsa.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write_file(source / "rsa.pub", public.decode())
    pem = rsa.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_file(source / "rsa.pem", pem.decode()).chmod(0o600)
    for words in (["trust", source / "rsa.pub"], ["show", source / "rsa.pub"], ["show", source / "rsa.pem"]):
        said = paddock.quickly("key", *words, code=6)
        assert "is a key of type RSA, and only Ed25519 keys are supported" in said.err
        assert "ssh-keygen -t ed25519" in said.err


def test_a_file_that_is_no_key_is_called_that_whoever_may_read_it(paddock: Paddock, source: Path) -> None:
    package = native(source / "n")
    said = paddock("plugin", "sign", package, "--key", package / "paddock.yaml", code=6)
    assert "paddock.yaml is not a private key" in said.err
    assert "chmod" not in said.err
    paddock.quickly("key", "add", source / "signing.pem")
    (source / "signing.pem").chmod(0o644)
    assert "chmod 600" in paddock.quickly("plugin", "sign", package, "--key", source / "signing.pem", code=6).err
    paddock.quickly("key", "show", source / "absent", code=3)


def test_a_strangers_signature_never_takes_the_place_of_a_trusted_one(paddock: Paddock, source: Path) -> None:
    good, evil = source / "good.pem", source / "evil.pem"
    made = paddock.quickly("key", "add", good, "--json").json
    paddock.quickly("key", "add", evil)
    paddock.quickly("key", "trust", made["public_key"], "--label", "Good")
    package = native(source / "n")
    paddock.quickly("plugin", "sign", package, "--key", good)
    paddock.quickly("plugin", "install", package, "--yes")
    (package / "paddock.sig").unlink()
    paddock.quickly("plugin", "sign", package, "--key", evil)

    assert paddock.quickly("plugin", "install", package, "--yes", "--json").json["action"] == "unchanged"
    assert paddock.listed()["notes"]["tier"] == "verified"
    following = native(source / "next", version="1.1.0")
    paddock.quickly("plugin", "sign", following, "--key", evil)
    paddock.quickly("plugin", "upgrade", "notes", following, "--yes", code=4)
