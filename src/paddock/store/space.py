"""What the system says when there is no room left: the disk, a quota, or a limit on the process."""

from __future__ import annotations

import errno

OUT_OF_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
