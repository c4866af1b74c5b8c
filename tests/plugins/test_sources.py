"""What a person may type as a source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.core.errors import NotFound, OperatorError, PaddockError
from paddock.plugins.package.source import PackageSource, SourceKind, SourceRecord, parse_source


@pytest.mark.parametrize(
    ("text", "location", "ref"),
    [
        ("git+https://example.org/a/b", "https://example.org/a/b", None),
        ("git+https://example.org/a/b.git#v1.0.0", "https://example.org/a/b.git", "v1.0.0"),
        ("https://example.org/a/b.git#feature/x", "https://example.org/a/b.git", "feature/x"),
        ("ssh://git@example.org:2222/a/b", "ssh://git@example.org:2222/a/b", None),
        ("git@example.org:a/b.git", "git@example.org:a/b.git", None),
        ("git+git@example.org:a/b.git#main", "git@example.org:a/b.git", "main"),
    ],
)
def test_git_addresses(text: str, location: str, ref: str | None, tmp_path: Path) -> None:
    assert parse_source(text, base=tmp_path) == PackageSource(SourceKind.GIT, location, ref)


def test_paths_are_directories_archives_or_repositories(plugin: Path, tmp_path: Path, git: Callable[..., str]) -> None:
    (tmp_path / "p.MCPB").touch()
    assert parse_source("plugin", base=tmp_path) == PackageSource(SourceKind.DIRECTORY, str(plugin))
    assert parse_source("p.MCPB", base=tmp_path).kind is SourceKind.ARCHIVE
    git(plugin, "init", "-q")
    url = plugin.as_uri()
    assert parse_source("plugin", base=tmp_path).kind is SourceKind.DIRECTORY
    assert parse_source("git+plugin", base=tmp_path) == PackageSource(SourceKind.GIT, url)
    assert parse_source("plugin#v1", base=tmp_path) == PackageSource(SourceKind.GIT, url, "v1")
    assert parse_source("plugin", ref="v1", base=tmp_path) == PackageSource(SourceKind.GIT, url, "v1")
    assert parse_source(f"git+{url}", base=tmp_path) == PackageSource(SourceKind.GIT, url)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "--upload-pack=evil",
        "nowhere",
        "bell\x07",
        "ext::sh -c evil",
        "git+ext::sh -c evil",
        "git+http://example.org/a.git",
        "git://example.org/a.git",
        "https://example.org/a.zip",
        "git+https://user:token@example.org/a.git",
        "git+https://token@example.org/a.git",
        "git+ssh://-oProxyCommand=evil/a",
        "git+https:///a.git",
        "git+https://[bad/a.git",
        "git+https://example.org/a.git#--evil",
        "git+https://example.org/a.git#a..b",
        "git+https://example.org/a.git#a b",
        "git+https://example.org/a.git#HEAD@{1}",
        "git+https://example.org/a.git#",
        "git+file://host/a.git",
        "git+nowhere",
        "pyproject.toml",
    ],
)
def test_what_cannot_be_fetched_safely_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    with pytest.raises(PaddockError):
        parse_source(text, base=tmp_path)


def test_a_path_that_leads_nowhere_is_not_found_with_or_without_git(tmp_path: Path) -> None:
    for text in ("nowhere", "git+nowhere", "nowhere.zip", "nowhere#v1"):
        with pytest.raises(NotFound) as caught:
            parse_source(text, base=tmp_path)
        assert caught.value.error_code == "source.not_found"


def test_an_archive_on_the_network_is_to_be_downloaded_first(tmp_path: Path) -> None:
    for text in ("https://example.org/a.zip", "https://example.org/A.MCPB?raw=1"):
        with pytest.raises(OperatorError) as caught:
            parse_source(text, base=tmp_path)
        assert caught.value.hint == "download it, then install the file"


def test_a_removed_working_directory_matters_only_to_relative_paths(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert parse_source(str(plugin)) == PackageSource(SourceKind.DIRECTORY, str(plugin))
    with pytest.raises(NotFound, match="working directory is gone"):
        parse_source("plugin")


def test_two_different_refs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="two refs"):
        parse_source("git+https://example.org/a.git#v1", ref="v2", base=tmp_path)


def test_a_secret_in_a_url_is_not_repeated_in_the_refusal(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as caught:
        parse_source("git+https://user:hunter2@example.org/a.git", base=tmp_path)
    assert "hunter2" not in caught.value.message + caught.value.hint


def test_a_record_remembers_the_commit(tmp_path: Path) -> None:
    record = SourceRecord(parse_source("git+https://example.org/a.git#v1", base=tmp_path), "a" * 40)
    assert SourceRecord.from_value(record.to_value()) == record
    assert record.describe() == "git repository https://example.org/a.git at v1 (commit aaaaaaaaaaaa)"
