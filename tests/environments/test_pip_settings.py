"""What a person told pip, told to uv."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.core.errors import OperatorError
from paddock.plugins.environments.pip_settings import read_pip_settings
from paddock.plugins.environments.wheel_choice import best_wheel


def test_files_of_settings_are_read_in_the_order_of_pip_and_variables_win(tmp_path: Path) -> None:
    (tmp_path / "site" / "pip").mkdir(parents=True)
    (tmp_path / "site" / "pip" / "pip.conf").write_text(
        "[global]\nindex-url = http://site/simple\nextra_index_url =\n  http://one/simple\n  http://two/simple\n"
        "timeout = 7\ncert = /site.pem\n[install]\nno-index = true\n[list]\nproxy = http://other\n"
    )
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "pip.conf").write_text("[global]\nindex-url = http://ann:pw@own/simple\nno-cache-dir = yes\n")
    environ = {
        "XDG_CONFIG_DIRS": str(tmp_path / "site"),
        "PIP_CONFIG_FILE": str(tmp_path / "own" / "pip.conf"),
        "PIP_CERT": "/mine.pem",
        "PIP_TIMEOUT": "",
        "PIP_FIND_LINKS": "/a /b",
        "PIP_TARGET": "/elsewhere",
    }
    settings = read_pip_settings(environ)
    assert settings.uv_variables() == {
        "UV_DEFAULT_INDEX": "http://ann:pw@own/simple",
        "UV_INDEX": "http://one/simple http://two/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/a,/b",
        "UV_HTTP_TIMEOUT": "7",
        "SSL_CERT_FILE": "/mine.pem",
    }
    assert settings.uv_options() == ["--no-index", "--no-cache"]
    assert read_pip_settings(environ | {"PIP_CONFIG_FILE": "/dev/null"}).uv_options() == []


def test_a_broken_file_of_settings_is_named(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("index-url = nowhere\n")
    with pytest.raises(OperatorError, match=r"pip\.conf"):
        read_pip_settings({"PIP_CONFIG_FILE": str(file)})


def test_the_wheel_that_was_made_for_this_machine_is_preferred_to_one_for_all() -> None:
    wheels = {
        name: name for name in ("x-1-py3-none-any.whl", "x-1-2-py3-none-any.whl", "x-1-py2-none-any.whl", "nonsense")
    }
    assert best_wheel(wheels) == "x-1-2-py3-none-any.whl"
