"""Label files, and the labels of flows."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flow_records import record, table
from hawser.ids.flows import group
from hawser.ids.truth import Truth
from hawser.store import labels
from hawser.store.errors import StoreError


def of(found: Truth, **values: object) -> str:
    records = table(record(**values))
    return str(found.of(records, group(records))[0])


def test_what_the_lab_does_not_name_is_benign(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("label,source,target_port,first_us,last_us\nscan,10.0.0.1,80,100,200\n")
    found, formats = Truth.read([file])
    assert formats == ["hawser"]
    assert of(found, first_us=150, last_us=300) == "scan"
    assert of(found, first_us=250, last_us=300) == "benign"


UNSW = (
    "59.166.0.0,1390,149.171.126.6,53,udp,CON,0.001055,132,164,31,29,0,0,dns,500473.9,621800.9,2,2,0"
    ",0,0,0,66,82,0,0,0,0,1421927414,1421927414,0.017,0.013,0,0,0,0,0,0,0,0,3,7,1,3,1,1,1,,0\n"
    "175.45.176.2,0x000b,149.171.126.12,-,unas,INT,0,0,0,0,0,0,0,-,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
    "1421927000,1421927001,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,Generic,1\n"
    "175.45.176.0,13284,149.171.126.16,80,tcp,FIN,0.5,918,25552,62,252,2,10,http,1,2,12,24,255,255,1"
    ",1,77,1065,2,2180,9.3,4.5,1421927415,1421927418,0,0,0,0,0,0,0,0,0,0,1,1,1,1,1,1,1, "
    "Backdoors ,1\n"
)


def test_unsw_nb15_is_read(tmp_path: Path) -> None:
    file = tmp_path / "UNSW-NB15_1.csv"
    file.write_text(UNSW)
    found, formats = Truth.read([file])
    assert formats == ["unsw-nb15"]
    at = 1_421_927_414_500_000
    dns = {"srcip": "59.166.0.0", "srcport": 1390, "dstip": "149.171.126.6", "dstport": 53}
    assert of(found, **dns, proto=17, first_us=at, last_us=at + 1055) == "benign"
    web = {"srcip": "175.45.176.0", "srcport": 13284, "dstip": "149.171.126.16", "dstport": 80}
    assert of(found, **web, first_us=at + 1_000_000, last_us=at + 2_000_000) == "backdoor"
    assert of(found, **web, first_us=at + 10_000_000, last_us=at + 11_000_000) == ""


CIC = (
    "Flow ID, Source IP, Source Port, Destination IP, Destination Port, Protocol, Timestamp,"
    " Flow Duration, Total Fwd Packets, Label\n"
    "a,192.168.10.5,54865,104.16.207.165,443,6,7/7/2017 3:30,3,2,BENIGN\n"
    "b,172.16.0.1,40000,192.168.10.50,80,6,6/7/2017 9:15,1000000,2,Web Attack \x96 Brute Force\n"
    "c,172.16.0.1,40001,192.168.10.50,80,6,03/07/2017 08:55:58,5,2,FTP-Patator\n"
    ",,,,,,,,,\n"
)


def test_cic_ids2017_is_read(tmp_path: Path) -> None:
    file = tmp_path / "Thursday.csv"
    file.write_text(CIC, encoding="latin-1")
    name, rows = labels.read_any(file)
    assert (name, len(rows)) == ("cic-ids2017", 3)
    benign, brute, patator = rows
    assert (benign.label, brute.label) == ("benign", "web-attack-brute-force")
    assert benign.first_us == 1_499_452_200_000_000  # 2017-07-07 18:30 UTC: 15:30 in the afternoon
    assert benign.last_us == benign.first_us + 60_000_000 + 2
    assert brute.first_us == 1_499_343_300_000_000  # 2017-07-06 12:15 UTC
    assert patator.first_us == 1_499_082_958_000_000
    assert patator.last_us == patator.first_us + 1_000_000 + 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (UNSW.replace(",1390,", ",99999,"), ":1: found '99999', expected a port"),
        (UNSW.replace("175.45.176.0", "175.45.176"), ":3: "),
        (UNSW.rstrip("1\n") + "2\n", ":3: Label: found '2', expected 0 or 1"),
        (UNSW + "1,2\n", ":4: found 2 fields, expected 49"),
        (CIC.replace("7/7/2017", "7.7.2017"), ":2: "),
        (CIC + "d,e\n", ":6: found 2 fields"),
        ("what,ever\n", "line 1: no column label"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(StoreError) as caught:
        labels.read_any(file)
    assert problem in str(caught.value)


HEADERS = [b"", CIC[:130].encode(), UNSW.encode(), b"label,first_us,last_us\n"]


@given(st.binary(max_size=300), st.sampled_from(HEADERS))
def test_no_file_ends_in_anything_but_labels_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, header: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.csv"
    file.write_bytes(header + content)
    with contextlib.suppress(StoreError):
        assert labels.read_any(file)[0] in labels.FORMATS
