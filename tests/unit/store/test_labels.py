"""Label files: what is written is read again, what matches, and what is refused."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.store.errors import StoreError
from hawser.store.labels import Flow, Label, Labels, Network, Ports, flow, matches, read, write

PORTS = st.tuples(st.integers(0, 65_535), st.integers(0, 65_535)).map(lambda p: Ports(*sorted(p)))
EXACT = st.integers(0, 3).map(lambda port: Ports(port, port))
NETWORKS: st.SearchStrategy[Network] = st.sampled_from(
    [ip_network(n) for n in ("10.0.0.1", "10.0.0.2", "10.0.0.0/24", "fd00::1", "fd00::/64")]
)
TIMES = st.integers(0, 50)


@st.composite
def rows(draw: st.DrawFn) -> Label:
    first, last = sorted((draw(TIMES), draw(TIMES)))
    return Label(
        draw(st.sampled_from(["benign", "syn-flood", "scan"])),
        first,
        last,
        draw(st.sampled_from(["", "nmap", 'a "quoted", word'])),
        draw(st.none() | st.sampled_from([1, 6, 17])),
        draw(st.none() | NETWORKS),
        draw(st.none() | EXACT | PORTS),
        draw(st.none() | NETWORKS),
        draw(st.none() | EXACT | PORTS),
    )


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    first, last = sorted((draw(TIMES), draw(TIMES)))
    addresses = st.sampled_from(list(map(ip_address, ("10.0.0.1", "10.0.0.2", "10.0.0.9"))))
    source, target = draw(addresses), draw(addresses)
    port = st.integers(0, 3)
    return Flow(
        draw(st.sampled_from([1, 6, 17])), source, draw(port), target, draw(port), first, last
    )


def label(name: str = "scan", **given: Any) -> Label:  # noqa: ANN401 (any field)
    return Label(name, **{"first_us": 10, "last_us": 20, **given})


def record(**given: object) -> Flow:
    usual = {"srcip": "10.0.0.1", "srcport": "1", "dstip": "10.0.0.2", "dstport": "2", "proto": "6"}
    times = {"first_us": "10", "last_us": "20"}
    return flow({**usual, **times, **{name: str(value) for name, value in given.items()}})


@given(st.lists(rows()))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, given: list[Label]
) -> None:
    file = tmp_path_factory.mktemp("labels") / "labels.csv"
    write(file, given)
    assert read(file) == given


@given(st.lists(rows(), max_size=8), flows())
def test_the_index_finds_what_a_search_of_all_rows_finds(given: list[Label], one: Flow) -> None:
    assert Labels(given).row(one) == next((row for row in given if matches(row, one)), None)


def test_the_first_row_decides_and_others_are_benign() -> None:
    pair = {"source": ip_network("10.0.0.1"), "target": ip_network("10.0.0.2")}
    wide = label("benign", source=ip_network("10.0.0.0/8"))
    assert Labels([label("flood", **pair), wide]).of(record()) == "flood"
    assert Labels([wide, label("flood", **pair)]).of(record()) == "benign"
    assert Labels([label("flood", **pair)]).of(record(dstip="10.0.0.3")) == "benign"


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({}, True),
        ({"first_us": 20, "last_us": 30}, True),
        ({"first_us": 21, "last_us": 30}, False),
        ({"first_us": 1, "last_us": 9}, False),
        ({"srcip": "10.0.0.2", "srcport": 2, "dstip": "10.0.0.1", "dstport": 1}, True),
        ({"dstport": 1, "srcport": 2}, False),
        ({"proto": 17}, False),
    ],
)
def test_directions_ports_and_times(given: dict[str, object], fits: bool) -> None:
    row = label(
        protocol=6,
        source=ip_network("10.0.0.1"),
        target=ip_network("10.0.0.2"),
        target_ports=Ports(2, 9),
    )
    assert matches(row, record(**given)) is fits


HEAD = "label,source,source_port,first_us,last_us\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: no column label"),
        ("label,last_us\n", "line 1: no column first_us"),
        (HEAD + "Scan,,,1,2\n", "line 2, column label: found 'Scan'"),
        (HEAD + "scan,10.0.0.300,,1,2\n", "line 2, column source: found '10.0.0.300'"),
        (HEAD + "scan,,9-7,1,2\n", "line 2, column source_port: found '9-7': expected the lower"),
        (HEAD + "scan,,65536,1,2\n", "line 2, column source_port: found '65536'"),
        (HEAD + "scan,,,1,2\nscan,,,x,2\n", "line 3, column first_us: found 'x'"),
        (HEAD + f"scan,,,1,{'9' * 5000}\n", "line 2, column last_us"),
        (HEAD + "scan,,,3,2\n", "line 2: last_us is before first_us"),
        (HEAD + 'scan,"10.0.0.1\n', "not CSV"),
        (HEAD + "scan\0,,,1,2\n", "line 2, column label|not CSV"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text)
    with pytest.raises(StoreError, match=said):
        read(file)


@given(st.binary(max_size=200))
def test_no_bytes_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("labels") / "labels.csv"
    file.write_bytes(HEAD.encode() + content)
    try:
        read(file)
    except StoreError:
        return


def test_unknown_columns_and_empty_cells_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("note,last_us,first_us,label\nx,2,1,scan\n")
    assert read(file) == [label(first_us=1, last_us=2)]
