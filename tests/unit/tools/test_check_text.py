from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from check_text import check, problems

# In pieces: this file is checked too.
HOSTS = ["index.crates" + ".io", "pypi" + ".org", "Artifact" + "ory", "proxy.golang" + ".org"]
PATHS = ["/work" + "/main", "/root" + "/.cargo", "/home" + "/someone"]


@pytest.mark.parametrize("host", HOSTS)
def test_registry_hosts(host: str) -> None:
    assert [line for line, _ in problems(f"fine\nsee https://{host}/x\n")] == [2]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("around", ["{}", "cd {}", '"{}"', "--root={}", "a:{}", "({})"])
def test_paths_of_one_machine(path: str, around: str) -> None:
    assert len(list(problems(around.format(path)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "registry+https://github.com/rust-lang/crates.io-index",
        "boringtun-cli from crates.io",
        "target/work" + "/x",
        "$HOME/root" + "/x and ~/work" + "/x and ${DIR}/home" + "/x",
        "Path(f'/proc/{pid}/root" + "/etc')",
        "the /root" + " of all",
    ],
)
def test_text_that_is_fine(text: str) -> None:
    assert list(problems(text)) == []


def test_the_place_is_named_and_what_is_not_text_is_skipped(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "a.md").write_text(f"one\ntwo {PATHS[0]}\n")
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe" + PATHS[0].encode())
    (tmp_path / "ignored").write_text(PATHS[0])
    (tmp_path / ".gitignore").write_text("ignored\n")
    assert check(tmp_path) == [f"a.md:2: a path of one machine: {PATHS[0][:7]}"]
