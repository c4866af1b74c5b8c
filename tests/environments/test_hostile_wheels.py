"""Wheels made to run something while they are installed, or to put something where none of theirs belongs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.environments.looking import environments, printed
from tests.environments.shops import PythonIndex

from fixtures.commands import Paddock
from fixtures.packages import shu, write_file
from paddock.core.errors import PluginError
from paddock.plugins.environments.files import check_package_files

NAME = "sly-1.0.0.data"
PROGRAM = "def main():\n    print('runs')\n"


@pytest.fixture
def canary(tmp_path: Path, index: PythonIndex) -> Path:
    """A file that is there once any Python has started in the environment of the package `sly`."""
    file = tmp_path / "canary"
    touch = f"import pathlib; pathlib.Path({str(file)!r}).touch()\n"
    started = {"sly.pth": touch, "sitecustomize.py": touch, "usercustomize.py": touch}
    # Modules that the compiler loads: under these names, a package's own would be loaded in their place.
    index.wheel("sly", modules={"sly.py": PROGRAM, "json.py": touch, "compileall.py": touch, **started})
    return file


@pytest.fixture
def plugin(tmp_path: Path, paddock: Paddock) -> Path:
    """A plugin that requires the package, on a host that lets it."""
    (paddock.home / "config.toml").write_text("[plugins]\nenvironments = true\n")
    write_file(shu(tmp_path / "shu") / "requirements.txt", "sly\n")
    return tmp_path / "shu"


def test_nothing_of_a_package_runs_while_it_is_installed_or_repaired(
    paddock: Paddock, index: PythonIndex, canary: Path
) -> None:
    paddock.quickly("plugin", "install", "pypi:sly", "--yes")
    assert not canary.exists()
    [root] = environments(paddock)
    assert list(root.rglob("sly.cpython-*.pyc")), "it was compiled all the same"
    root.with_suffix(".json").unlink()
    assert paddock.quickly("plugin", "repair", "sly", "--json").json["restored"] == ["1.0.0"]
    assert not canary.exists()


def test_nothing_that_a_plugin_requires_runs_while_it_is_installed(
    paddock: Paddock, index: PythonIndex, canary: Path, plugin: Path
) -> None:
    paddock.quickly("plugin", "install", plugin, "--yes")
    assert list(environments(paddock)[0].rglob("sly.pth"))
    assert not canary.exists()


@pytest.mark.parametrize(
    "path",
    [
        *("scripts/python", "data/pyvenv.cfg"),
        *(
            pytest.param(path, marks=pytest.mark.slow)
            for path in ("scripts/python3", "data/bin/python/python", "data/bin", "data/programs/sly")
        ),
    ],
)
def test_a_package_that_brings_a_file_of_the_environment_itself_is_refused(
    paddock: Paddock, index: PythonIndex, plugin: Path, path: str
) -> None:
    canary = plugin / "canary"
    index.wheel("sly", modules={"sly.py": PROGRAM, f"{NAME}/{path}": f"#!/bin/sh\ntouch {canary}\n"}, programs={})
    said = paddock.quickly("plugin", "install", plugin, "--yes", "--json", code=7)
    assert said.error["code"] == "environment.strange_file", said.error
    assert path.partition("/")[2].partition("/")[0] in said.error["message"]
    assert not canary.exists()
    assert (environments(paddock), paddock.listed(), list(paddock.staging.iterdir())) == ([], {}, [])


def test_scripts_of_a_package_are_left_out_and_its_programs_start_on_our_interpreter(
    paddock: Paddock, index: PythonIndex
) -> None:
    scripts = {f"{NAME}/scripts/{name}": "#!/bin/sh\nexit 1\n" for name in ("sly", "sh", "pip")}
    index.wheel("sly", modules={"sly.py": PROGRAM, **scripts})
    paddock.quickly("plugin", "install", "pypi:sly", "--yes")
    [root] = environments(paddock)
    assert [path.name for path in (root / "bin").iterdir()] == ["python"]
    assert printed(paddock, "sly") == "runs"


@pytest.mark.parametrize("kind", ["link", "second name", "pipe"])
def test_whatever_a_client_unpacks_must_be_a_directory_or_a_file_of_its_own(tmp_path: Path, kind: str) -> None:
    write_file(tmp_path / "elsewhere", "private")
    write_file(tmp_path / "root" / "lib" / "honest.py", "")
    check_package_files(tmp_path / "root", reserved=("bin/python",))
    strange = tmp_path / "root" / "lib" / "strange"
    if kind == "link":
        strange.symlink_to(tmp_path)
    elif kind == "second name":
        strange.hardlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(strange)
    with pytest.raises(PluginError, match="lib/strange"):
        check_package_files(tmp_path / "root")


@pytest.mark.parametrize(("path", "code"), [("../../../../../outside.py", 0), (f"{NAME}/data/../outside", 1)])
def test_a_file_that_would_lie_outside_of_the_environment_is_written_nowhere(
    paddock: Paddock, index: PythonIndex, path: str, code: int
) -> None:
    index.wheel("sly", modules={"sly.py": PROGRAM, path: "here = True\n"})
    paddock.quickly("plugin", "install", "pypi:sly", "--yes", "--json", code=code)
    assert len(environments(paddock)) == (code == 0)
    assert not list(paddock.home.parent.rglob("outside*"))


@pytest.mark.parametrize("name", ["../../../../outside", "/{home}/outside"])
def test_a_program_whose_name_is_a_path_is_written_nowhere(paddock: Paddock, index: PythonIndex, name: str) -> None:
    programs = {"sly": "sly:main", name.format(home=paddock.home): "sly:main"}
    index.wheel("sly", modules={"sly.py": PROGRAM}, programs=programs)
    paddock.quickly("plugin", "install", "pypi:sly", "--yes", "--json", code=1)
    assert not list(paddock.home.parent.rglob("outside*"))
