"""Reading a table of cases from disk: YAML, or TOML by its ending."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from paddock.config.toml_file import parse_toml
from paddock.core.errors import NotFound, OperatorError
from paddock.manifest.document import Document
from paddock.manifest.yaml_text import parse_yaml

SHIPPED_CASES: Final = Path(__file__).with_name("default_cases.yaml")
LARGEST: Final = 4 << 20


def read_case_file(file: Path | None = None) -> Document:
    """The table as values; the one that comes with the shipped rules where no file is named.

    Raises:
        NotFound: there is no such file.
        OperatorError: it cannot be read, or is too large.
        Invalid: it is neither YAML nor TOML.
    """
    path = file or SHIPPED_CASES
    try:
        with path.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", code="policy.no_cases") from None
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}", code="policy.unreadable") from error
    if len(content) > LARGEST:
        raise OperatorError(f"{path} is larger than {LARGEST >> 20} MiB", code="policy.too_large")
    if path.suffix == ".toml":
        return Document(str(path), parse_toml(content, path)[1])
    return parse_yaml(str(path), content.decode("utf-8", "replace"))
