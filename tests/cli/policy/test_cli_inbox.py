"""`paddock inbox`: what needs a person, and the command that answers it, without a daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.mail import mail


@pytest.mark.req("B-18", "inbox")
def test_the_inbox_lists_what_needs_a_person_and_how_to_answer_it(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home", more={"NO_COLOR": "1"})
    assert "nothing needs you" in paddock.quickly("inbox", "list", "--kind", "approval").err
    paddock.quickly("plugin", "install", mail(tmp_path / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    approval = paddock("call", "mail.send", "-p", '{"to": "bob"}', "--json", code=4).error["details"]["approval"]

    listed = paddock.quickly("inbox", "list")
    assert paddock.quickly("inbox").out == listed.out
    assert approval in listed.out and "danger" in listed.out and "mail · send" in listed.out
    page = paddock.quickly("inbox", "list", "--kind", "approval", "--json").json
    assert [item["id"] for item in page["items"]] == [approval] and page["counts"]["by_kind"]["approval"] == 1
    shown = paddock.quickly("inbox", "show", approval)
    assert f"→ paddock approval approve {approval}" in shown.err and '"to": "bob"' in shown.out
    assert f"→ paddock approval deny {approval}" in shown.err
    assert paddock.quickly("inbox", "show", approval, "--json").json["binding"].startswith("sha256:")

    paddock.quickly("approval", "deny", approval, "--yes")
    assert approval not in paddock.quickly("inbox", "list").out
    gone = paddock.quickly("inbox", "show", approval, code=3)
    assert "paddock inbox list" in gone.err
    assert paddock.quickly("inbox", "list", "--kind", "letter", code=2).err
