"""A cage as a page of text that a person can check: bubblewrap's options one a line, then the files it is given."""

from __future__ import annotations

from paddock.cage.confine.init_config import process_rlimits
from paddock.cage.plan.bwrap_arguments import CageAssets, build_arguments, build_command, build_zygote_arguments
from paddock.cage.spec import CageSpec

_FITTINGS = CageAssets(seccomp=b"(the system call filter)", init_files={"/.cage/trampoline.py": b"(the trampoline)"})


def page(spec: CageSpec) -> str:
    """What bubblewrap is told for this cage."""
    contents: list[bytes] = []
    words = build_arguments(
        spec,
        source_of=lambda bind: bind.source,
        file=lambda content: _kept(contents, content),
        assets=_FITTINGS,
        limits=process_rlimits(spec.limits, memory=False, processes=True),
    )
    return _lines([*words, "--", *build_command(spec)]) + _files(words, contents)


def zygote_page(spec: CageSpec) -> str:
    """What bubblewrap is told for the cage of a warm interpreter."""
    contents: list[bytes] = []
    words = build_zygote_arguments(
        spec,
        source_of=lambda bind: f"(staged){bind.source}",
        file=lambda content: _kept(contents, content),
        files={"/.cage/zygote.py": b"(the zygote)"},
    )
    return _lines(words) + _files(words, contents)


def _kept(contents: list[bytes], content: bytes) -> int:
    contents.append(content)
    return len(contents)


def _lines(words: list[str]) -> str:
    lines: list[str] = []
    for word in words:
        if word.startswith("--"):
            # What only changes the next option is set in.
            lines.append(f"  {word}" if word in ("--size", "--perms") else word)
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines) + "\n"


def _files(words: list[str], contents: list[bytes]) -> str:
    places = {words[at + 1]: words[at + 2] for at, word in enumerate(words) if word == "--file"}
    shown = ""
    for number, content in enumerate(contents, 1):
        lines = content.decode().replace("\0", "\n").splitlines()
        shown += f"\n[{number}] {places.get(str(number), 'the filter')}\n" + "".join(f"    {line}\n" for line in lines)
    return shown
