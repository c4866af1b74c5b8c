"""What a person may type as a source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.core.errors import OperatorError
from paddock.plugins.sources import Source, SourceKind, SourceRecord, parse_source


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
    assert parse_source(text, base=tmp_path) == Source(SourceKind.GIT, location, ref)


def test_paths_are_directories_archives_or_repositories(plugin: Path, tmp_path: Path, git: Callable[..., str]) -> None:
    (tmp_path / "p.MCPB").touch()
    assert parse_source("plugin", base=tmp_path) == Source(SourceKind.DIRECTORY, str(plugin))
    assert parse_source("p.MCPB", base=tmp_path).kind is SourceKind.ARCHIVE
    git(plugin, "init", "-q")
    url = plugin.as_uri()
    assert parse_source("plugin", base=tmp_path).kind is SourceKind.DIRECTORY
    assert parse_source("git+plugin", base=tmp_path) == Source(SourceKind.GIT, url)
    assert parse_source("plugin#v1", base=tmp_path) == Source(SourceKind.GIT, url, "v1")
    assert parse_source("plugin", ref="v1", base=tmp_path) == Source(SourceKind.GIT, url, "v1")
    assert parse_source(f"git+{url}", base=tmp_path) == Source(SourceKind.GIT, url)


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
    with pytest.raises(OperatorError):
        parse_source(text, base=tmp_path)


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
