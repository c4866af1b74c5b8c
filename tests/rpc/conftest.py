"""What the tests of the wire share."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(*(f"tests.rpc.contract_{part}" for part in ("lines", "asking", "answering", "ends")))
