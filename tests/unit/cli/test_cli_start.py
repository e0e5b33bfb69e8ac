"""What a verb does not need is not imported: `--help` and `validate` answer at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = (
    *("MLRsearch", "cryptography", "duckdb", "jinja2", "matplotlib", "numpy", "os_ken", "pyarrow"),
    *("hawser.report.build", "hawser.stats", "scipy"),
    *("alembic", "argon2", "sklearn", "fastapi", "sqlalchemy", "uvicorn", "websockets"),
)
"""Each takes from 0.05 to 0.7 s to import."""

_PROGRAM = """
import sys
from hawser.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "also"),
    [
        (("--help",), ("pydantic", "pyroute2", "ruamel", "hawser.spec")),
        (("validate", "workflows/quickstart.yaml"), ()),
        (("validate", "workflows/aws-sfc-ohio.yaml"), ()),
        (("plan", "workflows/quickstart.yaml"), ()),
    ],
)
def test_heavy_imports_stay_out(arguments: tuple[str, ...], also: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.split())
    assert imported.isdisjoint((*HEAVY, *also))
