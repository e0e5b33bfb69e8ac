"""The bottleneck in a report: from samples to a sentence. The numbers are invented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import synthetic
from hawser.report.bottleneck import bottlenecks
from hawser.report.build import build
from hawser.report.collect import Collected
from hawser.report.render import render
from hawser.spec.measurement import Iperf3
from hawser.spec.workflow import Workflow
from hawser.store import Bundle, Sample


def evidence(subject: str, **values: float) -> list[Sample]:
    return [
        Sample(
            measurement="tcp",
            metric=metric,
            unit="x",
            value=value,
            subject=subject,
            kind="evidence",
        )
        for metric, value in values.items()
    ]


FULL = [
    *evidence(
        "path:p1:forward", rate_limit=1250, load=99, load_busiest=100, packets=9960, drop_queue=40
    ),
    *evidence("program:gw1:firewall", thread_demand=71, thread_cpu=70),
]
IDLE = evidence("path:p1:forward", rate_limit=1250, load=20, load_busiest=22, packets=9960)


def judged(*trials: list[Sample]) -> dict[str, object]:
    workflow = synthetic.quickstart(1)
    labels = workflow.variants[0].labels
    name = next(n for n, m in workflow.variants[0].scenario.measurements.items() if n == "tcp")
    one = Collected(labels, evidence={name: dict(enumerate(trials, 1))})
    (found,) = bottlenecks([one], workflow)
    return found.model_dump()


def test_the_element_is_named_with_its_evidence_and_the_next() -> None:
    found = judged(FULL, FULL, IDLE)
    assert found["kind"] == "rate"
    assert found["elements"] == ("path:p1:forward",)
    assert found["text"] == (
        "path:p1:forward was saturated at 1250 Mbit/s and dropped 0.400 % of the packets"
    )
    assert found["next"] == "gw1 at 71 % of a core"
    assert (found["runs"], found["of"]) == (2, 3)


def test_where_nothing_was_at_its_limit_that_is_said() -> None:
    found = judged(IDLE)
    assert (found["kind"], found["elements"]) == (None, ())
    assert found["text"] == "unknown: nothing was at its limit"


SENTENCES = {
    "the queue of path:p1:forward was too short:"
    " it dropped 1 % of the packets at 43 % of its rate of 20 Mbit/s":
        evidence("path:p1:forward", rate_limit=20, load=40, packets=99000, drop_queue=1000,
                 load_at_drop=43),
    "path:p1:forward was saturated at 20 Mbit/s":
        evidence("path:p1:forward", rate_limit=20, load=99, load_busiest=100, packets=9000,
                 drop_queue=0),
    "a filter or policer on gw1 dropped 3 % of the packets":
        evidence("node:gw1", packets=1000, drop_filter=30),
    "the function gw1 used up its CPU quota in 96 % of all periods":
        evidence("node:gw1", cpu=9, cpu_limit=10, throttled=96),
    "the generator h1: a thread of iperf3 ran 60 % of the time and waited for a core 35 %":
        evidence("program:h1:iperf3", thread_demand=95, thread_cpu=60),
    "the receiver h2 was too slow: its socket buffers overflowed and dropped 50 % of the datagrams":
        evidence("socket:h2", packets=500, drop_buffer=500),
    "the receive window of h2 was too small: it limited the connection 90 % of the time":
        evidence("socket:h1", receive_window_limited=90, send_buffer_limited=0),
    "the receiver h2 read too slowly: its receive window was full 80 % of the time":
        evidence("socket:h1", busy=100, receive_window_limited=80)
        + evidence("socket:h2", receive_buffer_unread=90),
    "the generator h1: its send buffer limited the connection 40 % of the time":
        evidence("socket:h1", receive_window_limited=0, send_buffer_limited=40),
    "the generator h1: its program had nothing to send 80 % of the time":
        evidence("socket:h1", busy=20, receive_window_limited=0),
    "the function daemon:gw1: a thread of hawserd ran 99 % of the time":
        evidence("daemon:gw1", thread_demand=99, thread_cpu=99),
    "path:p1:forward lost 40 packets by its configured loss":
        evidence("path:p1:forward", drop_loss=40),
    "path:p1:forward lost 2 % of packets by its configured loss":
        evidence("path:p1:forward", drop_loss=40, packets_offered=2000),
}  # fmt: skip


@pytest.mark.parametrize("text", SENTENCES)
def test_every_kind_has_its_sentence(text: str) -> None:
    assert judged(SENTENCES[text])["text"] == text


def test_every_form_shows_it(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path, synthetic.quickstart(3), extra=FULL)
    report = build(Bundle.open(path))
    assert {one.elements for one in report.bottlenecks} == {("path:p1:forward",)}
    for form in ("html", "md", "text"):
        text = " ".join(render(report, form).decode().split())  # type: ignore[arg-type]
        assert "was saturated at" in text.replace("\\", ""), form
    document = json.loads(render(report, "json"))
    assert document["bottlenecks"][0]["kind"] == "rate"
    assert not any(row["measurement"] == "tcp" and row["subject"] for row in document["rows"])


def test_pings_load_nothing_and_have_no_bottleneck() -> None:
    workflow: Workflow = synthetic.quickstart(1)
    scenario = workflow.variants[0].scenario
    pings = {n for n, m in scenario.measurements.items() if not isinstance(m, Iperf3)}
    one = Collected(workflow.variants[0].labels, evidence={n: {1: FULL} for n in pings})
    assert pings
    assert bottlenecks([one], workflow) == ()
