"""The key that signs: lost, replaced on purpose, or put there by somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ledger.chains import Chain, called, new_chain, run_example

from paddock.core.errors import HostError
from paddock.ledger.chain.checkpoint import checkpoint_file, read_checkpoint_lines
from paddock.ledger.chain.signing_key import (
    key_id,
    load_signing_key,
    private_key_file,
    read_public_key,
    replaced_key_file,
)


@pytest.fixture
async def chain(sqlite_address: str, tmp_path: Path) -> Chain:
    return await new_chain(sqlite_address, tmp_path / "state")


async def refused(chain: Chain) -> HostError:
    lines = read_checkpoint_lines(chain.checkpoints)
    with pytest.raises(HostError) as said:
        await chain.checkpoint()
    assert said.value.error_code == "ledger.key"
    assert read_checkpoint_lines(chain.checkpoints) == lines, "and nothing is signed"
    return said.value


async def test_where_the_key_is_lost_nothing_is_signed_and_it_is_said_what_to_do(chain: Chain) -> None:
    public, key = chain.key.read_bytes(), key_id(read_public_key(chain.key))
    kept = private_key_file(chain.state).read_bytes()
    private_key_file(chain.state).unlink()
    said = await refused(chain)
    assert key in said.message
    assert f"mv {chain.key} {replaced_key_file(chain.state, key)}" in said.hint
    assert (chain.key.read_bytes(), private_key_file(chain.state).exists()) == (public, False)
    assert chain.verify().verdict == "sound", "what was signed can still be verified"
    chain.key.unlink()
    assert f"put its public half, {key}, into" in (await refused(chain)).hint
    assert not private_key_file(chain.state).exists()
    signing_key_put_back(chain, kept)
    await chain.checkpoint()
    assert (chain.key.read_bytes(), chain.verify().unsigned) == (public, 0)


async def test_a_key_that_was_said_to_be_lost_is_followed_by_another_and_both_hold_the_chain(chain: Chain) -> None:
    old = key_id(read_public_key(chain.key))
    replaced = replaced_key_file(chain.state, old)
    private_key_file(chain.state).unlink()
    chain.key.rename(replaced)
    assert chain.verify().verdict == "sound"
    await chain.checkpoint()
    new = key_id(read_public_key(chain.key))
    finding = chain.verify()
    assert (finding.verdict, finding.unsigned, finding.keys) == ("sound", 0, (old, new))
    assert run_example(chain.export(), "--key", replaced, "--key", chain.key) == 0
    assert run_example(chain.export(), "--key", replaced) == 1
    assert chain.verify(keys=[replaced]).verdict == "tampered", "who kept the old one elsewhere hears of the new one"
    replaced.unlink()
    assert chain.verify().verdict == "tampered"
    assert key_id(load_signing_key(chain.state).public_key().public_bytes_raw()) == new


async def test_a_key_that_was_replaced_signs_nothing_more(chain: Chain) -> None:
    old_private, old = private_key_file(chain.state).read_bytes(), key_id(read_public_key(chain.key))
    private_key_file(chain.state).unlink()
    chain.key.rename(replaced_key_file(chain.state, old))
    await chain.checkpoint()
    new = key_id(read_public_key(chain.key))
    chain.add(called(40))
    chain.key.rename(replaced_key_file(chain.state, new))  # somebody who has the old key makes it the one that counts
    signing_key_put_back(chain, old_private)
    await chain.checkpoint()
    finding = chain.verify()
    assert (finding.verdict, finding.seq) == ("tampered", 31)


@pytest.mark.parametrize("public", ["there", "gone"])
async def test_another_key_in_its_place_signs_nothing_and_overwrites_nothing(
    chain: Chain, tmp_path: Path, public: str
) -> None:
    before = chain.key.read_bytes()
    load_signing_key(tmp_path / "other")
    signing_key_put_back(chain, private_key_file(tmp_path / "other").read_bytes())
    if public == "gone":
        chain.key.unlink()
    await refused(chain)
    if public == "there":
        assert chain.key.read_bytes() == before
        chain.key.write_bytes(b"nonsense")
        await refused(chain)
        assert chain.key.read_bytes() == b"nonsense"


async def test_a_key_is_made_for_a_home_that_has_none_beside_empty_files(sqlite_address: str, tmp_path: Path) -> None:
    chain = Chain(sqlite_address, tmp_path / "state")
    chain.add(called(1))
    file = checkpoint_file(chain.state, "other")
    file.parent.mkdir(parents=True)
    file.touch()
    await chain.checkpoint()
    assert chain.verify().unsigned == 0


def signing_key_put_back(chain: Chain, content: bytes) -> None:
    private_key_file(chain.state).write_bytes(content)
    private_key_file(chain.state).chmod(0o600)
