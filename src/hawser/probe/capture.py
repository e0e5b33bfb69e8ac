"""Captures of packets while a trial is measured: one tcpdump for each, at its own port.

The file grows to the size that is asked for. tcpdump then ends, by the limit of file sizes that it
is started with, in the middle of a packet, which is cut off.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from hawser.driver.base import Lab
from hawser.node.base import Node, NodeError, Process, tail
from hawser.node.pcap import whole
from hawser.probe.base import ProbeError
from hawser.spec.capture import Capture

TOOLS: Final = ("tcpdump", "prlimit")
_READY_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.02
_HELD_SECONDS: Final = 1.2
"""Time for which the kernel may hold a packet before tcpdump gets it: 1 s (its read timeout)."""
_LISTENING: Final = "listening on"
"""What tcpdump says when it captures."""


@contextmanager
def capturing(lab: Lab, captures: Mapping[str, Capture], raw: Path) -> Iterator[None]:
    """Capture while the block runs; files are `raw/capture-NAME.pcap`, with tcpdump's words beside.

    Raises:
        ProbeError: a capture did not begin.
        NodeError: a file cannot be read.
    """
    with ExitStack() as stack:
        for name, capture in captures.items():
            stack.enter_context(_one(lab.nodes[capture.at.node], name, capture, raw))
        yield
        if captures:
            time.sleep(_HELD_SECONDS)


@contextmanager
def _one(node: Node, name: str, capture: Capture, raw: Path) -> Iterator[None]:
    folder = node.directory / "captures"
    file, log = folder / f"{name}.pcap", folder / f"{name}.log"
    node.put(log, b"")
    process = node.start(_command(capture, file), log=log)
    try:
        _until_listening(node, name, process, log)
        yield
    finally:
        process.stop()
        said = node.get(log).decode(errors="replace")
        content, packets = whole(_content(node, file))
        (raw / f"capture-{name}.pcap").write_bytes(content)
        ended = f"{packets} packets in the file, of at most {capture.size}\n"
        (raw / f"capture-{name}.txt").write_text(said + ended, encoding="utf-8")


def _content(node: Node, file: Path) -> bytes:
    try:
        return node.get(file)
    except NodeError:
        return b""  # it never began


def _command(capture: Capture, file: Path) -> list[str]:
    limit = ["prlimit", f"--fsize={int(capture.size)}", "--core=0"]
    tcpdump = ["tcpdump", "-n", "-Z", "root", "-i", capture.at.name, "-s", str(capture.snap)]
    return [*limit, *tcpdump, "-w", str(file), "--", capture.filter]


def _until_listening(node: Node, name: str, process: Process, log: Path) -> None:
    end = time.monotonic() + _READY_SECONDS
    while _LISTENING not in (said := node.get(log).decode(errors="replace")):
        if not process.running() or time.monotonic() > end:
            raise ProbeError(f"capture {name}: tcpdump did not begin{tail(said)}")
        time.sleep(_POLL_SECONDS)
