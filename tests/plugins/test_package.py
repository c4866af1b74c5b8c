"""The blob that the store keeps gives back exactly the tree it was made of."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.core.errors import HostError, Modified
from paddock.plugins.package.blob import open_packed_stream, unpack_blob
from paddock.plugins.package.rules import PackageValidator, is_excluded
from paddock.plugins.package.tree import PackageTree, scan_tree
from paddock.store.blobs import FileBlobs

segments = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\\:"), min_size=1, max_size=60)
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)
contents = st.tuples(st.binary(max_size=1_500), st.booleans())


def write(root: Path, files: dict[str, tuple[bytes, bool]]) -> PackageTree:
    """The files that may stand together in one package."""
    listing = PackageValidator()
    for path, (content, executable) in files.items():
        if is_excluded(path) or not listing.add_file(path, len(content)):
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        (root / path).chmod(0o755 if executable else 0o644)
    return scan_tree(root)


@given(st.dictionaries(paths, contents, max_size=8))
def test_any_tree_survives_packing_and_unpacking(files: dict[str, tuple[bytes, bool]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        root.mkdir()
        tree = write(root, {"paddock.yaml": (b"name: x", False), **files})
        blob = io.BytesIO(open_packed_stream(root, tree).read())
        unpack_blob(blob, Path(place) / "copy", tree)
        assert scan_tree(Path(place) / "copy") == tree
        assert open_packed_stream(Path(place) / "copy", tree).read() == blob.getvalue()


def test_the_blob_is_a_tar_that_other_tools_read(plugin: Path) -> None:
    (plugin / ("long" * 30)).write_text("long")
    (plugin / "ünïcode.py").write_text("text")
    (plugin / "paddock.sig").write_text("{}")
    tree = scan_tree(plugin)
    blob = io.BytesIO(open_packed_stream(plugin, tree).read())
    with tarfile.open(fileobj=blob, mode="r:") as archive:
        found = {member.name: (member.size, member.mode, member.mtime, member.uid) for member in archive}
    listed = {file.path: (file.size, 0o755 if file.executable else 0o644, 0, 0) for file in tree.files}
    assert found == {**listed, "paddock.sig": (2, 0o644, 0, 0)}


def test_the_signature_travels_with_the_package(plugin: Path, tmp_path: Path) -> None:
    (plugin / "paddock.sig").write_text("{}")
    tree = scan_tree(plugin)
    blob = io.BytesIO(open_packed_stream(plugin, tree).read())
    unpack_blob(blob, tmp_path / "copy", tree)
    assert (tmp_path / "copy" / "paddock.sig").read_text() == "{}"


def test_a_file_that_changed_cannot_be_packed(plugin: Path) -> None:
    tree = scan_tree(plugin)
    (plugin / "code" / "main.py").write_text("print('HELLO')\n")
    with pytest.raises(Modified, match="main"):
        open_packed_stream(plugin, tree).read()
    (plugin / "code" / "main.py").unlink()
    with pytest.raises(Modified, match="main"):
        open_packed_stream(plugin, tree).read()


def test_a_store_takes_the_package_without_a_copy_in_between(plugin: Path, tmp_path: Path) -> None:
    (plugin / "big.bin").write_bytes(bytes(range(256)) * 12_000)
    tree, blobs = scan_tree(plugin), FileBlobs(tmp_path / "blobs")
    digest = blobs.put(open_packed_stream(plugin, tree))
    assert digest == "sha256:" + hashlib.sha256(open_packed_stream(plugin, tree).read()).hexdigest()
    with blobs.open(digest) as kept:
        unpack_blob(kept, tmp_path / "copy", tree)
    assert scan_tree(tmp_path / "copy") == tree


@pytest.mark.parametrize("place", [0, 5, 512, 1024 + 3, 1024 + 200, -1, -700])
def test_a_damaged_blob_is_refused_wherever_the_damage_is(place: int, plugin: Path, tmp_path: Path) -> None:
    tree = scan_tree(plugin)
    damaged = bytearray(open_packed_stream(plugin, tree).read())
    damaged[place] ^= 1
    with pytest.raises(HostError) as caught:
        unpack_blob(io.BytesIO(damaged), tmp_path / "copy", tree)
    assert caught.value.error_code == "package.corrupt"


def test_a_blob_cut_short_continued_or_of_another_tree_is_refused(plugin: Path, tmp_path: Path) -> None:
    tree = scan_tree(plugin)
    whole = open_packed_stream(plugin, tree).read()
    for number, wrong in enumerate([b"", whole[:700], whole[:-1], whole + b"\0"]):
        with pytest.raises(HostError):
            unpack_blob(io.BytesIO(wrong), tmp_path / str(number), tree)
    (plugin / "more.py").touch()
    with pytest.raises(HostError):
        unpack_blob(io.BytesIO(whole), tmp_path / "other", scan_tree(plugin))
