"""`paddock plugin new` and `paddock plugin test` on the command line."""

from __future__ import annotations

from pathlib import Path

from fixtures.commands import Paddock


def test_a_new_plugin_is_made_checked_and_tested_by_the_commands_that_new_names(paddock: Paddock) -> None:
    folder = paddock.home.parent / "my letters"
    made = paddock("plugin", "new", "Letter.Answer", folder, "--kind", "operator", "--json").json

    assert (made["name"], made["kind"], made["language"]) == ("Letter.Answer", "operator", "python")
    assert "letter_answer/operator.py" in made["files"]
    assert made["next"][1] == f"paddock plugin test '{folder}' --effects"
    paddock("plugin", "check", folder)
    assert "11 passed, 0 failed, 1 skipped" in paddock("plugin", "test", folder, "--effects").out


def test_what_is_there_is_not_touched_and_what_is_not_there_is_named(paddock: Paddock, source: Path) -> None:
    (source / "work.txt").write_text("mine")

    assert paddock("plugin", "new", "greeter", source, "--json", code=1).error["code"] == "new.exists"
    refused = paddock.quickly("plugin", "new", "x", "--kind", "shu", "--lang", "shell", "--json", code=6).error
    assert (refused["code"], refused["hint"]) == (
        "new.no_template",
        "shu is there in: python; in shell there is: plugin",
    )


def test_all_mistakes_in_the_arguments_of_new_are_told_at_once(paddock: Paddock, source: Path) -> None:
    (source / "work.txt").write_text("mine")
    refused = paddock.quickly(
        "plugin", "new", "1st:", source, "--kind", "toool", "--lang", "cobol", "--json", code=6
    ).error
    assert refused["code"] == "new.mistakes"
    assert [(one["path"], one["code"]) for one in refused["errors"]] == [
        ("--kind", "new.unknown_kind"),
        ("--lang", "new.no_template"),
        ("NAME", "new.bad_name"),
        ("DIR", "new.exists"),
    ]
    assert all(one["hint"] for one in refused["errors"])
    assert [path.name for path in source.iterdir()] == ["work.txt"]


def test_a_plugin_that_fails_a_check_ends_the_command_with_1_and_says_why(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "new", "greeter", source / "greeter")
    main = source / "greeter" / "main.py"
    main.write_text(main.read_text().replace('{"text": f', '{"words": f'))

    said = paddock("plugin", "test", source / "greeter", code=1)
    assert "FAIL  call greet: it answered with an error" in said.out
    assert "greet answered otherwise than it promised: text is missing" in said.out
    assert "6 passed, 1 failed, 0 skipped" in said.out.splitlines()[-1]

    told = paddock("plugin", "test", source / "greeter", "--json", code=1).json
    assert told["counts"] == {"pass": 6, "fail": 1, "skip": 0}
    assert {one["check"] for one in told["findings"]} >= {"handshake", "ping", "unknown method", "shutdown"}


def test_a_folder_that_is_no_plugin_is_told_as_check_would_tell_it(paddock: Paddock, source: Path) -> None:
    assert paddock("plugin", "test", source, "--json", code=6).error["code"] in ("manifest.missing", "manifest.invalid")
