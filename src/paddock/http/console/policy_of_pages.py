"""What a page of the console may load and do: what is ours, and nothing else."""

from __future__ import annotations

from typing import Final

_LOOKS: Final = "style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
CSP: Final = f"default-src 'none'; script-src 'self'; connect-src 'self'; {_LOOKS}"
WITHOUT_SCRIPTS: Final = f"default-src 'none'; {_LOOKS}"
"""For pages whose own address is a secret: nothing runs beside it."""
