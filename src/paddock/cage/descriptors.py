"""Descriptors: files without a name that travel as one, and what is said where none is free."""

from __future__ import annotations

import errno
import os
import select

NONE_FREE = "cage.no_descriptors"
HOW_TO_HAVE_MORE = "raise the limit on open files (ulimit -n)"


def none_free(error: OSError) -> bool:
    """Whether this is the error of a process, or of a machine, without a free descriptor."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def file_with(content: bytes) -> int:
    """An anonymous file with this content, read from its start; the caller closes it.

    Raises:
        OSError: no descriptor or no memory is free.
    """
    descriptor = os.memfd_create("paddock", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def readable(descriptor: int) -> bool:
    """Whether something is to be read right now; of a process, whether it has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
