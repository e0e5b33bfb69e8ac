from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from check_pure_rooms import check, python_problems, rust_problems


@pytest.mark.parametrize(
    "line",
    [
        "let now = Instant::now();",
        "let now = std::time::Instant::now();",
        "use std::time::SystemTime;",
        "let passed = start.elapsed();",
        "use std::net::UdpSocket;",
        "std::thread::sleep(pause);",
        "use std::fs;",
        "let text = fs::read_to_string(path)?;",
        "tokio::spawn(task);",
        "let mut rng = rand::rng();",
        "let rng = SmallRng::from_os_rng();",
        'println!("{x}");',
    ],
)
def test_rust_that_is_not_pure(line: str) -> None:
    assert [number for number, _ in rust_problems(f"fn f() {{\n{line}\n}}")][:1] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "use std::net::{IpAddr, Ipv4Addr, SocketAddr};",
        "use std::time::{Duration, Instant};",
        "fn poll(&mut self, now: Instant) -> Option<Duration> { now.checked_add(self.wait) }",
        "let rng = SmallRng::seed_from_u64(seed);",
        "// never Instant::now() here",
        "/* SystemTime\n TcpStream */",
        'const WHY: &str = "no \\" UdpSocket";',
        'const RAW: &str = r#"a " SystemTime"#;',
        "let quote = '\"'; let other = '\"';",
        "fn view<'a>(bytes: &'a [u8]) -> View<'a> { View { bytes } }",
    ],
)
def test_rust_that_is_pure(line: str) -> None:
    assert list(rust_problems(line)) == []


def test_rust_lines_are_counted_across_comments_and_strings() -> None:
    text = '/* one\n two */\nconst A: &str = "\n";\nlet now = Instant::now();\n'
    assert list(rust_problems(text)) == [(5, "Instant::now")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import time", "import of time"),
        ("import os.path", "import of os"),
        ("from socket import socket", "import of socket"),
        ("from urllib.request import urlopen", "import of urllib"),
        ("from datetime import datetime as d\nd.now()", "datetime.datetime.now()"),
        ("import datetime\ndatetime.date.today()", "datetime.date.today()"),
        ("import random\nrandom.random()", "random.random() on shared state"),
        ("from random import shuffle\nshuffle([])", "random.shuffle() on shared state"),
        ("import random\nrandom.Random()", "random.Random() without a seed"),
        ("import numpy as np\nnp.random.rand(3)", "numpy.random.rand() on shared state"),
        (
            "from numpy.random import default_rng\ndefault_rng()",
            "numpy.random.default_rng() without a seed",
        ),
        ("from scipy import stats\nstats.bootstrap(x)", "scipy.stats.bootstrap() without rng"),
        ("open('x')", "open()"),
        ("from pathlib import Path\nPath('x').read_text()", ".read_text()"),
    ],
)
def test_python_that_is_not_pure(text: str, problem: str) -> None:
    assert [found for _, found in python_problems(text)] == [problem]


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import datetime\ndatetime.fromisoformat('2030-01-01')",
        "import random\nrandom.Random(7).random()",
        "import numpy as np\nnp.random.default_rng(seed).normal()",
        "from scipy import stats\nstats.bootstrap(x, rng=rng)",
        "from pathlib import Path\nPath('x').with_suffix('.y')",
        "def pick(random):\n    return random.choice([1])",
        "from hawser.spec import time_units",
        "from .time import seconds",
    ],
)
def test_python_that_is_pure(text: str) -> None:
    assert list(python_problems(text)) == []


def test_only_pure_rooms_are_looked_at_and_the_place_is_named(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("src/hawser/spec/a.py", "src/hawser/node/a.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text("x = 1\nimport time\n")
    crate = tmp_path / "crates/wire/src"
    crate.mkdir(parents=True)
    (crate / "lib.rs").write_text("fn f() { std::thread::sleep(x) }\n")

    assert check(tmp_path) == [
        "crates/wire/src/lib.rs:1: thread::sleep in a pure room",
        "src/hawser/spec/a.py:2: import of time in a pure room",
    ]
