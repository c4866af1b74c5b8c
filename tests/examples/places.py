"""Where the examples are, and how the Python ones are run without a host: imported in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run_inside(example: str, program: str, *, value: Any = None) -> Any:
    """What `program` prints as JSON when it runs with only the example's own folders on its path. `value` is stdin."""
    root = EXAMPLES / example
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(value),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd="/",
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{root}:{root / 'vendor'}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def schema_errors(schema: Any, value: Any) -> list[str]:
    """What a schema says against a value."""
    from paddock.core.schema.compile import compile_schema

    return [str(problem) for problem in compile_schema(schema).errors(value)]
