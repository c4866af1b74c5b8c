"""Installing from the command line: what a person is shown, what they answer, and what stays when they say no."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from fixtures.commands import INTERRUPT, Paddock
from fixtures.daemons import daemon
from fixtures.packages import bundle, kaged, kernel, native, osqr, shu, write_file, write_json, zipped


def entries(paddock: Paddock) -> dict[str, dict[str, object]]:
    """The plugin entries of local.toml."""
    return tomllib.loads(paddock.local.read_text()).get("plugins", {}) if paddock.local.exists() else {}


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) if root.exists() else []


def assert_nothing_changed(paddock: Paddock) -> None:
    assert paddock.listed() == {}
    assert files_below(paddock.trees) == []
    assert files_below(paddock.staging) == []
    assert files_below(paddock.home / "data" / "packages") == []
    assert entries(paddock) == {}


@pytest.mark.req("G-25", "disabled")
@pytest.mark.req("G-31", "manual install")
def test_an_installed_plugin_is_disabled_and_has_its_entry_in_local_toml(paddock: Paddock, source: Path) -> None:
    said = paddock("plugin", "install", native(source), "--yes")

    assert "it is disabled" in said.err
    assert said.out == ""
    row = paddock.listed()["notes"]
    assert (row["state"], row["enabled"], row["version"]) == ("disabled", False, "1.0.0")
    assert entries(paddock) == {"notes": {"installed": "1.0.0", "local": True}}
    assert paddock.local.stat().st_mode & 0o777 == 0o600
    assert files_below(paddock.trees) == ["notes/1.0.0/paddock.yaml", "notes/1.0.0/run.sh"]
    assert files_below(paddock.staging) == []


@pytest.mark.req("G-25", "consented to")
def test_the_consent_screen_tells_behaviour_data_effects_reach_tools_and_signer(paddock: Paddock, source: Path) -> None:
    taught = paddock("plugin", "install", osqr(source / "o"), "--yes", "--grant", "net:api.openai.com:443").err
    for words in (
        "a patient teacher",
        "Speaks up by itself when you discuss money",
        "Reads your private knowledge vault",
        "Sends data to api.openai.com",
        "net:api.openai.com:443",
        "unsigned",
        "personal",
    ):
        assert words in taught
    api = "net:api.example.com:443"
    noted = paddock("plugin", "install", native(source / "n", capabilities=[api]), "--yes", "--grant", api).err
    assert "writes to a database: add" in noted
    assert "add — Add a note" in noted
    assert "connect to api.example.com on port 443" in noted


@pytest.mark.req("G-25", "consented to")
def test_without_a_terminal_and_without_yes_nothing_changes_and_the_exit_is_4(paddock: Paddock, source: Path) -> None:
    said = paddock("plugin", "install", native(source), code=4)

    assert said.out == ""
    assert f"paddock plugin install {source} --yes" in said.err
    assert "Install notes 1.0.0?" in said.err
    assert_nothing_changed(paddock)


@pytest.mark.req("G-25", "consented to")
def test_a_person_at_a_terminal_says_yes(paddock: Paddock, source: Path) -> None:
    screen = paddock.on_terminal("plugin", "install", native(source), answers=["y"])

    assert "Install notes 1.0.0? [y/N]" in screen
    assert paddock.listed()["notes"]["state"] == "disabled"


def test_ctrl_c_at_the_question_leaves_nothing_at_the_daemon_that_fetched_the_package(
    paddock: Paddock, source: Path
) -> None:
    native(source)
    with daemon(paddock) as served:
        paddock.on_terminal("plugin", "install", source, answers=[INTERRUPT], code=130)
        assert served.ask("GET", "/installs").body["installs"] == []
        assert_nothing_changed(paddock)

        paddock.on_terminal("plugin", "install", "source", answers=["y"])  # where the command runs, not the daemon
        assert served.ask("GET", "/plugins/notes").body["state"] == "disabled"


@pytest.mark.parametrize("answer", ["n", "", "maybe"])
def test_anything_but_a_clear_yes_changes_nothing(paddock: Paddock, source: Path, answer: str) -> None:
    screen = paddock.on_terminal("plugin", "install", native(source), answers=[answer], code=4)

    assert "you declined; nothing was changed" in screen
    assert_nothing_changed(paddock)


@pytest.mark.req("G-31", "invalid manifest rejection")
def test_a_manifest_with_mistakes_is_refused_with_all_of_them_and_leaves_nothing(
    paddock: Paddock, source: Path
) -> None:
    native(source, name="Not A Name", version="one", capabilities=["fly:everywhere"])
    said = paddock("plugin", "install", source, "--yes", "--json", code=6)

    assert said.error["code"] == "manifest.invalid"
    assert {problem["path"] for problem in said.error["errors"]} >= {"name", "version", "capabilities[0]"}
    for path in ("name", "version", "capabilities[0]"):
        assert f"✗ {path}" in said.err
    assert_nothing_changed(paddock)


@pytest.mark.parametrize("make", [native, kaged, kernel, osqr, shu, bundle])
def test_a_plugin_of_every_dialect_installs_from_a_directory(paddock: Paddock, source: Path, make: object) -> None:
    assert callable(make)
    named = ["--grant", "net:api.openai.com:443"] if make is osqr else []  # dangerous, as the package is unsigned
    done = paddock.quickly("plugin", "install", make(source), "--yes", *named, "--json").json

    assert done["action"] == "installed"
    assert list(paddock.listed()) == [done["name"]]


@pytest.mark.req("S-07", "zip package")
def test_a_zip_with_vendored_libraries_installs_with_them(paddock: Paddock, source: Path) -> None:
    archive = zipped(shu(source / "shu"), source / "shu_notes.zip")
    paddock("plugin", "install", archive, "--yes")

    assert "shu_notes/1.0.0/vendor/tinylib.py" in files_below(paddock.trees)
    assert paddock.quickly("plugin", "enable", "shu_notes", "--no-start").code == 0


def test_an_mcp_bundle_installs_from_its_file(paddock: Paddock, source: Path) -> None:
    archive = zipped(bundle(source / "weather"), source / "weather.mcpb")
    done = paddock("plugin", "install", archive, "--yes", "--json").json

    assert (done["name"], done["action"]) == ("weather", "installed")
    assert paddock.listed()["weather"]["source"] == f"archive {archive}"


def git(directory: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *names, *arguments], cwd=directory, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_git_repository_installs_by_tag_and_by_commit_and_upgrades_by_ref(paddock: Paddock, source: Path) -> None:
    repository = source / "repository"
    native(repository)
    git(repository, "init", "-q")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "one")
    git(repository, "tag", "v1.0.0")
    first = git(repository, "rev-parse", "HEAD")
    native(repository, version="1.1.0")
    git(repository, "commit", "-q", "-a", "-m", "two")
    git(repository, "tag", "v1.1.0")

    paddock("plugin", "install", f"git+file://{repository}#v1.0.0", "--yes")
    row = paddock.listed()["notes"]
    assert row["version"] == "1.0.0"
    assert first[:12] in row["source"]
    assert not any(".git" in path for path in files_below(paddock.trees))

    # Without SRC the recorded repository is read again, at the ref that is named.
    paddock("plugin", "upgrade", "notes", "--ref", "v1.1.0", "--yes")
    assert paddock.listed()["notes"]["version"] == "1.1.0"

    paddock.quickly("plugin", "remove", "notes", "--yes")
    paddock("plugin", "install", repository, "--ref", first, "--yes")
    assert paddock.listed()["notes"]["version"] == "1.0.0"


def test_json_output_is_exactly_one_document_whatever_happens(paddock: Paddock, source: Path) -> None:
    native(source)
    waits = paddock("plugin", "install", source, "--json", code=4)
    assert waits.error["code"] == "consent_required"

    done = paddock("plugin", "install", source, "--json", "--yes").json
    assert (done["action"], done["state"]) == ("installed", "disabled")
    assert done["screen"]["question"] == "Install notes 1.0.0?"

    again = paddock("plugin", "install", source, "--json", "--yes").json
    assert again["action"] == "unchanged"

    missing = paddock("plugin", "install", source / "nowhere", "--json", code=3)
    assert missing.error["code"] == "source.not_found"


def test_the_same_version_with_other_files_is_a_conflict(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    before = paddock.listed()["notes"]["digest"]
    write_file(source / "run.sh", "#!/bin/sh\nexec tac\n", executable=True)
    said = paddock("plugin", "install", source, "--yes", "--json", code=1)

    assert said.error["code"] == "plugin.version_exists"
    assert "with other files" in said.error["message"]
    assert paddock.listed()["notes"]["digest"] == before


def test_a_name_that_could_be_taken_for_another_is_refused(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source / "a", name="my-notes"), "--yes")
    said = paddock.quickly("plugin", "install", native(source / "b", name="My_Notes"), "--yes", "--json", code=1)
    assert said.error["code"] == "plugin.name_confusable"

    paddock.quickly("plugin", "alias", "jot", "my-notes")
    said = paddock.quickly("plugin", "install", native(source / "c", name="jot"), "--yes", "--json", code=1)
    assert said.error["code"] == "plugin.name_taken"
    assert list(paddock.listed()) == ["my-notes"]


def test_two_osqr_titles_with_one_id_are_not_taken_for_each_other(paddock: Paddock, source: Path) -> None:
    paddock.quickly(
        "plugin", "install", osqr(source / "a", "Fourth Formula"), "--yes", "--grant", "net:api.openai.com:443"
    )
    other = osqr(source / "b", "Fourth: Formula!", "2.0.0")
    said = paddock.quickly("plugin", "install", other, "--yes", "--json", code=1)

    assert said.error["code"] == "plugin.name_taken"
    assert "Fourth Formula" in said.error["message"]


def test_a_name_that_another_wrote_as_a_setting_is_refused_before_anything_changes(
    paddock: Paddock, source: Path
) -> None:
    paddock.home.mkdir()
    paddock.local.write_text("[plugins]\nenvironments = true\n")
    paddock.local.chmod(0o600)
    said = paddock("plugin", "install", native(source, name="environments"), "--yes", "--json", code=6)

    assert said.error["code"] == "config.name_taken"
    assert paddock.listed() == {}
    # And the command line is not stuck on it.
    paddock("plugin", "install", native(source / "other", name="other"), "--yes")
    assert list(paddock.listed()) == ["other"]


def test_an_unsafe_archive_is_refused_by_name_of_the_entry(paddock: Paddock, source: Path) -> None:
    import zipfile

    native(source / "n")
    archive = zipped(source / "n", source / "n.zip")
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("../outside", "x")
    said = paddock("plugin", "install", archive, "--yes", "--json", code=6)

    assert "outside" in json.dumps(said.error["errors"])
    assert not (paddock.home.parent / "outside").exists()
    assert_nothing_changed(paddock)


def test_a_manifest_that_is_not_there_is_told(paddock: Paddock, source: Path) -> None:
    write_json(source / "a.json", {})
    write_json(source / "b.json", {})
    said = paddock.quickly("plugin", "install", source, "--yes", "--json", code=6)

    assert said.error["code"] == "manifest.missing"
