"""What the compiler learns of this machine's files: no file, whatever it is or becomes, stops or breaks it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.plan.programs import find_program, resolve_links, shebang_interpreters

MACHINE = DiskFilesystem()


def test_each_kind_of_file_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    kinds = {name: MACHINE.kind(f"{tmp_path}/{name}") for name in ("file", "link", "pipe", "socket", "absent", "x\0")}
    assert kinds == {
        "file": "file",
        "link": "link",
        "pipe": "special",
        "socket": "special",
        "absent": None,
        "x\0": None,
    }
    assert MACHINE.kind(str(tmp_path)) == "directory"
    assert MACHINE.kind("/dev/null") == "special"


def test_a_program_that_became_a_pipe_is_no_program_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "tool"
    os.mkfifo(pipe, 0o755)
    assert not MACHINE.runnable(str(pipe))
    assert MACHINE.read_head(str(pipe)) == b"", "opened the usual way this would wait for a writer"
    assert shebang_interpreters(str(pipe), MACHINE) == []
    assert find_program("tool", str(tmp_path), MACHINE) is None


def test_a_first_line_is_read_from_the_file_itself_and_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh -e\n")
    (tmp_path / "link").symlink_to("script")
    assert shebang_interpreters(f"{tmp_path}/script", MACHINE) == ["/bin/sh"]
    assert MACHINE.read_head(f"{tmp_path}/link") == b""
    assert MACHINE.read_head(str(tmp_path)) == b""


class VanishingLink(DiskFilesystem):
    """A machine where a link is taken away between two looks."""

    def link(self, path: str) -> str:
        Path(path).unlink()
        return super().link(path)


def test_a_link_that_is_taken_away_while_it_is_followed_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert MACHINE.link(str(tmp_path)) == ""
    assert resolve_links(f"{tmp_path.resolve()}/link", VanishingLink()) is None
