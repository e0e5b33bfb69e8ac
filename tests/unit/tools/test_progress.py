from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from repository import ROOT

CARGO = """\
   Compiling wire v0.1.0
{"reason":"compiler-artifact","package_id":"registry#cc@1.0.0","target":{"kind":["lib"]}}
{"reason":"compiler-artifact","package_id":"registry#libc@0.2.0","target":{"kind":["custom-build"]}}
{"reason":"build-script-executed","package_id":"registry#libc@0.2.0"}
{"reason":"compiler-artifact","package_id":"registry#serde@1.0.0","target":{"kind":["lib"]}}
{"reason":"compiler-artifact","package_id":"registry#serde@1.0.0","target":{"kind":["lib"]}}
"""
APT = """\
3 upgraded, 4 newly installed, 0 to remove and 9 not upgraded.
Unpacking clang (1:14.0) ...
Setting up clang (1:14.0) ...
"""


def shell(script: str) -> subprocess.CompletedProcess[str]:
    start = 'set -euo pipefail; say() { echo "hawser: $*" >&2; }; source tools/progress.sh\n'
    command = ["bash", "-c", start + script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("count", "log", "said"),
    [
        ("crates=4 cargo_done", CARGO, "2 of 4 crates"),
        ("crates=4 cargo_done", "", "0 of 4 crates"),
        ("apt_done", APT, "1 of 4 packages"),
        ("apt_done", "Get:1 bookworm InRelease\n", "reading lists"),
        (
            "pip_lock=$0.lock; pip_done",
            "Collecting a==1\n  Downloading a-1.whl\n",
            "1 of 2 packages",
        ),
        (
            "pip_lock=$0.lock; pip_done",
            "Installing collected packages: a\n",
            "all are here, installing",
        ),
    ],
)
def test_how_far_a_log_is(count: str, log: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    (tmp_path / "lock").write_text("a==1 \\\n    --hash=sha256:00\nb==2 \\\n    --hash=sha256:01\n")
    script = count.replace("$0.lock", str(tmp_path / "lock"))
    assert shell(f"{script} {path}").stdout == said


def test_progress_is_said_now_and_then(tmp_path: Path) -> None:
    done = shell(
        f"count() {{ wc -l <$1; }}; PROGRESS_EVERY=1 follow work {tmp_path}/log count "
        "sh -c 'echo a; echo b; sleep 1.5'"
    )
    assert done.returncode == 0
    assert "hawser: work: 2 (1 s)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("hawser: work: done (")


def test_what_fails_shows_its_end(tmp_path: Path) -> None:
    done = shell(f"count() {{ :; }}; follow work {tmp_path}/log count sh -c 'echo why; exit 7'")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "why"
    assert done.stderr.splitlines()[-1] == "hawser: failed: sh -c echo why; exit 7"
