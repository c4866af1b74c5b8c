"""What `paddock doctor` says of the rules: without a daemon, files with a mistake have every call refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock

RULE = """\
@id("no-guests") @text("No guests.")
forbid (principal in Role::"guest", action in Action::"anyCall", resource);
"""


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    return Paddock(tmp_path / "home")


def write_rules(paddock: Paddock, text: str) -> Path:
    folder = paddock.home / "policies"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    paddock.home.chmod(0o700)
    file = folder / "own.cedar"
    file.write_text(text)
    file.chmod(0o600)
    return file


def looked(paddock: Paddock, code: int = 0) -> dict[str, Any]:
    (found,) = [one for one in paddock.quickly("doctor", "--json", code=code).json["checks"] if one["name"] == "rules"]
    return found


def test_rules_that_can_be_used_are_counted(paddock: Paddock) -> None:
    write_rules(paddock, RULE)

    found = looked(paddock)

    assert found["status"] == "ok"
    assert found["found"].endswith("rules loaded (1 custom)")


def test_rules_with_a_mistake_are_a_failure_with_its_line_and_what_to_type(paddock: Paddock) -> None:
    file = write_rules(paddock, RULE.replace("anyCall", "anyCal"))

    found = looked(paddock, code=1)

    assert (found["status"], found["code"], found["fix"]) == ("fail", "policy.invalid", "paddock policy check")
    assert found["details"][0].startswith(f"{file} (line 2): there is no action 'anyCal'")
    assert "every call is denied" in found["why"]


def test_rules_that_others_can_write_are_a_failure(paddock: Paddock) -> None:
    file = write_rules(paddock, RULE)
    file.chmod(0o666)

    found = looked(paddock, code=1)

    assert (found["status"], found["code"]) == ("fail", "policy.unsafe")
    assert found["fix"] == f"chmod go-w {file}"
