"""Files that a program needs in order to run: libraries, its own modules, certificates, time zones. Pure.

They are read-only, and only directories that every program of the host may read anyway. Never a directory of programs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.programs import ResolvedProgram, copied_interpreter, is_python

# Nearly every program uses these where they exist: the loader's cache, time zones and locales.
COMMON_PATHS = (
    "/etc/alternatives",  # nothing but links: some libraries are found through them
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/lib/locale",
    "/usr/share/zoneinfo",
)
# Programs with network access need CA certificates, and programs besides the plugin's own may need OpenSSL's settings.
# All others go without: every mount adds to the start time.
TLS_PATHS = (
    "/etc/pki/tls",
    "/etc/pki/ca-trust/extracted",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/usr/lib/ssl",
    "/usr/share/ca-certificates",
)
# Directories where an interpreter keeps modules outside its libraries, by the name of its file.
_MODULE_PATHS = {
    "node": ("/usr/share/nodejs",),
    "nodejs": ("/usr/share/nodejs",),
    "perl": ("/usr/share/perl", "/usr/share/perl5", "/etc/perl"),
    "ruby": ("/usr/lib/ruby", "/usr/share/rubygems-integration", "/var/lib/gems"),
}


def library_trees(filesystem: HostFilesystem) -> Iterator[str]:
    """Directories of shared libraries: Debian's per-architecture ones where they exist, else all of lib."""
    for base in ("/usr/lib", "/lib"):
        if filesystem.kind(base) != "directory":
            continue  # /lib is a link to usr/lib nearly everywhere
        triplets = [name for name in filesystem.entries(base) if name.endswith(("-linux-gnu", "-linux-musl"))]
        yield from (f"{base}/{name}" for name in triplets)
        if not triplets:
            yield base
    for base in ("/usr/lib64", "/lib64"):
        if filesystem.kind(base) == "directory":
            yield base


def program_trees(program: ResolvedProgram, filesystem: HostFilesystem) -> Iterator[str]:
    """The files that this one program needs beyond the libraries. Paths may not exist."""
    name = posixpath.basename(program.real)
    if is_python(program):
        yield from python_trees(program, filesystem)
        return
    stem = name.rstrip("0123456789.")  # ruby3.1, perl5.36.0
    yield from _MODULE_PATHS.get(stem, ())
    before, separator, after = program.real.partition("/node_modules/")
    if separator:
        # npx and its like: a script inside a Node package.
        package = after.split("/")
        yield f"{before}/node_modules/{'/'.join(package[: 2 if after.startswith('@') else 1])}"
    if program.real.startswith("/usr/local/"):
        yield "/usr/local/lib"


def python_trees(program: ResolvedProgram, filesystem: HostFilesystem) -> Iterator[str]:
    """An interpreter's own modules, and the virtual environments on the path to it."""
    for step in (program.path, *(link.path for link in program.resolved.links), program.real):
        environment = posixpath.dirname(posixpath.dirname(step))
        if filesystem.kind(f"{environment}/pyvenv.cfg") == "file":
            yield environment
    origin = copied_interpreter(program, filesystem)
    if origin is not None:
        yield from python_trees(origin, filesystem)
    prefix = posixpath.dirname(posixpath.dirname(program.real))
    if prefix != "/usr":
        yield f"{prefix}/lib"
        return
    version = posixpath.basename(program.real)
    for library in ("/usr/lib", "/usr/lib64", "/usr/local/lib"):
        yield f"{library}/{version}"
    yield "/usr/lib/python3"  # Debian's directory for all versions
