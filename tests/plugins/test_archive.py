"""Archives from strangers: what is refused, and that all mistakes are told at once."""

from __future__ import annotations

import io
import shutil
import stat
import unicodedata
import zipfile
from pathlib import Path

import pytest

from paddock.core.errors import Invalid
from paddock.plugins.package.source import parse_source
from paddock.plugins.package.stage import stage_package
from plugins.hostile import Row, write_zip


def staged(path: Path, root: Path) -> dict[str, bytes]:
    """The files that come out of a package, by path."""
    with stage_package(parse_source(str(path)), root) as done:
        return {file.path: (done.root / file.path).read_bytes() for file in done.tree.files}


def refused(path: Path, root: Path) -> list[tuple[str, str]]:
    """Path and code of every reason that a package was refused for; nothing may be left behind."""
    with pytest.raises(Invalid) as caught, stage_package(parse_source(str(path)), root):
        pass
    assert list(root.iterdir()) == []
    assert all(problem.path.isprintable() for problem in caught.value.problems)
    return [(problem.path, problem.code) for problem in caught.value.problems]


HONEST = Row(b"manifest.yaml")

BAD_NAMES = {
    b"/etc/passwd": "absolute",
    b"C:/windows": "drive letter",
    b"c:evil": "drive letter",
    b"a\\..\\b": "backslash",
    b"../up.py": "climbs",
    b"a/../../up.py": "climbs",
    b"a//b.py": "empty",
    b"./b.py": "empty",
    b"nul\0.py": "control",
    b"bell\x1b[31m.py": "control",
    b"\xff\xfe.py": "UTF-8",
    b"n" * 256: "segment",
    b"/".join([b"d" * 100] * 11): "longer than 1024",
    b"/".join([b"d"] * 70): "nested",
    b"": "empty",
}


@pytest.mark.req("S-07", "traversal")
@pytest.mark.parametrize("name", BAD_NAMES, ids=list(BAD_NAMES.values()))
def test_a_name_that_could_escape_or_confuse_is_refused(name: bytes, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "p.zip", [HONEST, Row(name)])
    with pytest.raises(Invalid) as caught, stage_package(parse_source(str(path)), tmp_path / "s"):
        pass
    (problem,) = caught.value.problems
    assert BAD_NAMES[name] in problem.message
    assert problem.code == "package.unsafe_path"
    assert problem.path.isprintable()


@pytest.mark.req("S-07", "bombs")
@pytest.mark.req("S-07", "links")
@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([Row(b"link", b"/etc/passwd", mode=stat.S_IFLNK | 0o777)], "package.not_a_file"),
        ([Row(b"device", mode=stat.S_IFBLK | 0o644)], "package.not_a_file"),
        ([Row(b"pipe", mode=stat.S_IFIFO | 0o644)], "package.not_a_file"),
        ([Row(b"folder", mode=stat.S_IFDIR | 0o755)], "package.not_a_file"),
        ([Row(b"folder/", b"content", mode=stat.S_IFDIR | 0o755)], "package.not_a_file"),
        ([Row(b"secret", flags=1)], "package.encrypted"),
        ([Row(b"lzma", method=14)], "package.compression"),
        ([Row(b"a.py"), Row(b"a.py")], "package.collision"),
        ([Row(b"a.py"), Row(b"A.PY")], "package.collision"),
        ([Row("stra\u00dfe".encode()), Row(b"STRASSE")], "package.collision"),
        (
            [
                Row(unicodedata.normalize("NFC", "\u00e9").encode()),
                Row(unicodedata.normalize("NFD", "\u00e9").encode()),
            ],
            "package.collision",
        ),
        ([Row(b"a"), Row(b"a/b.py")], "package.collision"),
        ([Row(b"a/b.py"), Row(b"A/c.py")], "package.collision"),
        ([Row(b"a/b.py"), Row(b"A")], "package.collision"),
        ([Row(b"a.py"), Row(b"b.py", offset_of=0, local_name=b"a.py")], "package.overlap"),
        ([Row(b"a.py", local_name=b"b.py")], "package.damaged"),
        ([Row(b"a.py", extra=b"\x75\x70\x09\x00\x01abcdevil")], "package.unsafe_path"),
        ([Row(b"a.py", method=0, declared_size=9)], "package.damaged"),
        ([Row(b"a.py", declared_size=3)], "package.damaged"),
        ([Row(b"a.py", declared_size=900)], "package.damaged"),
        ([Row(b"a.py", declared_crc=7)], "package.damaged"),
        ([Row(b"bomb", b"\0" * 5_000_000)], "package.bomb"),
        ([Row(b"huge", declared_size=0xFFFFFFFE)], "package.too_big"),
        ([Row(f"f{number}".encode(), b"") for number in range(2_000)], "package.too_many_files"),
    ],
)
def test_an_unsafe_archive_is_refused_and_leaves_nothing(rows: list[Row], code: str, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "p.zip", [HONEST, *rows])
    assert code in {told for _, told in refused(path, tmp_path / "s")}


def test_every_mistake_is_told_at_once_and_no_more_than_fifty(tmp_path: Path) -> None:
    two = write_zip(tmp_path / "two.zip", [HONEST, Row(b"/a"), Row(b"../b"), Row(b"l", mode=stat.S_IFLNK | 0o777)])
    assert [path for path, _ in refused(two, tmp_path / "s")] == ["/a", "../b", "l"]
    many = write_zip(tmp_path / "many.zip", [Row(f"../{number}".encode()) for number in range(500)])
    assert len(refused(many, tmp_path / "s")) == 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0xFFFF}, "more than 2,000 files"),
        ({"count": 3}, "damaged central directory"),
        ({"count": 1}, "more entries"),
        ({"before_end": b"PK\x06\x07" + bytes(16)}, "zip64"),
        ({"before_end": bytes(7)}, "not where"),
        ({"comment": b"PK\x05\x06" + bytes(18)}, "two end records"),
    ],
)
def test_an_end_record_that_lies_is_refused(changes: dict[str, int], message: str, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "p.zip", [HONEST, Row(b"a.py")], **changes)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=message), stage_package(parse_source(str(path)), tmp_path / "s"):
        pass


def test_a_file_that_is_no_zip_or_far_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("hello")
    with (
        pytest.raises(Invalid, match="not a zip"),
        stage_package(parse_source(str(tmp_path / "text.zip")), tmp_path / "s"),
    ):
        pass
    with (tmp_path / "sparse.mcpb").open("wb") as file:
        file.truncate(100 * 1024 * 1024 + 1)
    with (
        pytest.raises(Invalid, match="larger than"),
        stage_package(parse_source(str(tmp_path / "sparse.mcpb")), tmp_path / "s"),
    ):
        pass


def test_a_zip_inside_a_zip_stays_a_closed_file(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(50_000_000))
    path = write_zip(tmp_path / "p.zip", [HONEST, Row(b"inner.zip", inner.getvalue(), method=0)])
    assert staged(path, tmp_path / "s")["inner.zip"] == inner.getvalue()


def test_a_short_file_of_repeated_text_is_no_bomb(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "p.zip", [HONEST, Row(b"zeros.txt", b"0" * 60_000)])
    assert len(staged(path, tmp_path / "s")["zeros.txt"]) == 60_000


def test_ordinary_tools_make_archives_that_are_read(plugin: Path, tmp_path: Path) -> None:
    made = Path(shutil.make_archive(str(tmp_path / "made"), "zip", plugin))
    with (
        stage_package(parse_source(str(plugin)), tmp_path / "s") as folder,
        stage_package(parse_source(str(made)), tmp_path / "s") as zipped,
    ):
        assert zipped.tree == folder.tree
        assert stat.S_IMODE((zipped.root / "code/run.sh").stat().st_mode) == 0o755
        assert stat.S_IMODE((zipped.root / "paddock.yaml").stat().st_mode) == 0o644
    streamed = tmp_path / "streamed.dxt"
    with streamed.open("wb") as file, zipfile.ZipFile(_Unseekable(file), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", "{}" * 500)
    assert staged(streamed, tmp_path / "s") == {"manifest.json": b"{}" * 500}


class _Unseekable(io.RawIOBase):
    """A pipe, to the eyes of a zip writer: sizes then follow the data."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return self._file.write(data)


def test_a_folder_around_everything_is_taken_off(tmp_path: Path) -> None:
    rows = [Row(b"name-1.0/", b"", mode=0o40755), Row(b"name-1.0/paddock.yaml"), Row(b"name-1.0/a/b.py")]
    wrapped = write_zip(tmp_path / "w.zip", [*rows, Row(b"__MACOSX/._paddock.yaml")])
    assert set(staged(wrapped, tmp_path / "s")) == {"paddock.yaml", "a/b.py"}


def test_a_manifest_at_the_root_keeps_folders_where_they_are(tmp_path: Path) -> None:
    shu = write_zip(tmp_path / "shu.zip", [Row(b"manifest.yaml"), Row(b"my_plugin/plugin.py"), Row(b"vendor/x.py")])
    assert set(staged(shu, tmp_path / "s")) == {"manifest.yaml", "my_plugin/plugin.py", "vendor/x.py"}
    editor = write_zip(tmp_path / "editor.zip", [Row(b".vscode/mcp.json")])
    assert set(staged(editor, tmp_path / "s")) == {".vscode/mcp.json"}
