"""A client's settings file, while others write it too, and where it cannot be written."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from paddock.cli.commands.mcp_import.replacement_log import ReplacementLog
from paddock.core.errors import Conflict, OperatorError


@pytest.mark.parametrize("now", [b'{"mcpServers": {}}', b"\xff\xfe{\x00}\x00", b""])
def test_what_somebody_wrote_meanwhile_stays_whatever_it_is(tmp_path: Path, now: bytes) -> None:
    state = tmp_path / "state"
    state.mkdir()
    file = tmp_path / "settings.json"
    file.write_bytes(now)

    with pytest.raises(Conflict) as refused:
        ReplacementLog(state).replace(file, '{"servers": {}}', "{}", [])

    assert refused.value.error_code == "import.file_changed"
    assert file.read_bytes() == now and sorted(tmp_path.iterdir()) == [file, state]
    assert ReplacementLog(state).read() == []


@pytest.mark.parametrize(
    ("after", "replaced"),
    [("{" + " " * 5_000 + "}", []), ('{"a": 1}', ["n" * 5_000])],
    ids=["the file", "the record of it"],
)
def test_where_it_cannot_be_written_it_stays_and_no_copy_of_its_keys_is_left_behind(
    tmp_path: Path, after: str, replaced: list[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    file = tmp_path / "settings.json"
    file.write_text("{}")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(OperatorError) as refused:
            ReplacementLog(state).replace(file, "{}", after, replaced)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert refused.value.error_code == "import.unwritable"
    assert file.read_text() == "{}" and sorted(tmp_path.iterdir()) == [file, state]
    assert ReplacementLog(state).read() == []
