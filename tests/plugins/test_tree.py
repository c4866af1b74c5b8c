"""The digest that stands for a package, and what tells that a tree is no longer the same."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from paddock.core.errors import HostError, Invalid
from paddock.plugins.package.tree import PackageTree, TreeFile, fingerprint, scan_tree, verify_tree

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_digest_of_a_known_tree_never_changes() -> None:
    files = (TreeFile("b/ü.py", True, 0, EMPTY), TreeFile("a.py", False, 0, EMPTY))
    tree = PackageTree(files)
    assert [file.path for file in tree.files] == ["a.py", "b/ü.py"]
    # Written down: stored digests and signatures in the world depend on it.
    assert tree.digest == "sha256:019f96e06d7c6d161eabef2df3c97b70c25462abeee07713166e531cd13cf263"
    assert PackageTree.from_value(json.loads(json.dumps(tree.to_value()))) == tree


def test_a_stored_list_that_is_damaged_is_our_fault() -> None:
    for value in (None, {}, [["a", 1]], [["a", False, "1", "x"]], ["a"]):
        with pytest.raises(HostError):
            PackageTree.from_value(value)


def test_a_path_cannot_pretend_to_be_two_files() -> None:
    line = TreeFile("b", False, 0, EMPTY).digest_line().decode()
    assert (
        PackageTree((TreeFile(f"a\n{line}", False, 0, EMPTY),)).digest
        != PackageTree((TreeFile("a", False, 0, EMPTY), TreeFile("b", False, 0, EMPTY))).digest
    )


def test_only_the_signature_at_the_root_and_empty_directories_do_not_count(plugin: Path) -> None:
    before = scan_tree(plugin)
    (plugin / "paddock.sig").write_text("{}")
    (plugin / "empty").mkdir()
    assert scan_tree(plugin) == before
    (plugin / "code" / "paddock.sig").write_text("{}")
    assert scan_tree(plugin).digest != before.digest


def test_a_signature_that_is_a_directory_hides_nothing(plugin: Path) -> None:
    (plugin / "paddock.sig").mkdir()
    (plugin / "paddock.sig" / "evil.py").write_text("")
    assert "paddock.sig/evil.py" in {file.path for file in scan_tree(plugin).files}


def test_the_executable_bit_is_part_of_the_digest(plugin: Path) -> None:
    before = scan_tree(plugin).digest
    (plugin / "code" / "main.py").chmod(0o755)
    assert scan_tree(plugin).digest != before


def test_links_pipes_and_names_that_are_not_text_are_mistakes(plugin: Path) -> None:
    (plugin / "link").symlink_to("/etc/passwd")
    os.mkfifo(plugin / "pipe")
    Path(os.fsdecode(os.fsencode(plugin) + b"/\xff")).touch()
    with pytest.raises(Invalid) as caught:
        scan_tree(plugin)
    assert {problem.path for problem in caught.value.problems} == {"link", "pipe", "\\udcff"}


def test_a_changed_tree_names_its_changed_missing_and_added_files(plugin: Path) -> None:
    tree = scan_tree(plugin)
    (plugin / "paddock.yaml").write_text("name: other\n")
    (plugin / "code" / "main.py").unlink()
    (plugin / "new.py").write_text("")
    verdict = verify_tree(plugin, tree.digest, expected=tree)
    assert not verdict.intact
    assert verdict.difference.changed == ("paddock.yaml",)
    assert verdict.difference.missing == ("code/main.py",)
    assert verdict.difference.added == ("new.py",)


def test_a_file_replaced_by_a_link_to_the_same_content_is_a_change(plugin: Path, tmp_path: Path) -> None:
    tree = scan_tree(plugin)
    (plugin / "paddock.yaml").rename(tmp_path / "elsewhere")
    (plugin / "paddock.yaml").symlink_to(tmp_path / "elsewhere")
    verdict = verify_tree(plugin, tree.digest, expected=tree)
    assert not verdict.intact
    assert verdict.difference.changed == ("paddock.yaml",)


def test_a_tree_that_is_gone_is_not_intact(plugin: Path) -> None:
    tree, known = scan_tree(plugin), fingerprint(plugin)
    shutil.rmtree(plugin)
    verdict = verify_tree(plugin, tree.digest, known, tree)
    assert not verdict.intact
    assert len(verdict.difference.missing) == 3


def test_an_untouched_tree_is_known_by_its_stats_alone_even_after_a_rename(plugin: Path, tmp_path: Path) -> None:
    tree, known = scan_tree(plugin), fingerprint(plugin)
    moved = plugin.rename(tmp_path / "moved")
    verdict = verify_tree(moved, tree.digest, known)
    assert verdict.intact
    assert verdict.by_fingerprint


def test_a_touched_file_is_read_again_and_found_intact(plugin: Path) -> None:
    tree, known = scan_tree(plugin), fingerprint(plugin)
    os.utime(plugin / "paddock.yaml", ns=(0, 0))
    verdict = verify_tree(plugin, tree.digest, known)
    assert verdict.intact
    assert not verdict.by_fingerprint
