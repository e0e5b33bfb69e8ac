"""Measurements: a model for each probe, chosen by the field `probe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from hawser.spec.model import Model, Name, NodeOrPort
from hawser.spec.traffic import Backend, Counted, Flows, Sizes
from hawser.spec.units import Duration, Rate, Ratio, Size


class Between(Model):
    """A measurement between two nodes."""

    source: Annotated[NodeOrPort, Field(alias="from")]
    """Node that sends. `node.port` also chooses the port's address."""
    target: Annotated[NodeOrPort, Field(alias="to")]
    """Node that receives."""
    beside: Annotated[Name | None, Field(alias="with")] = None
    """An earlier measurement to run at the same time as. Default: after all earlier ones."""
    during: Name | None = None
    """An earlier measurement within whose measured time, without its warm-up, this one runs."""
    family: Literal[4, 6] = 4
    """IP version of its packets. Version 6 requires ends that have IPv6 addresses."""
    start: Duration = Duration(0)
    """Time after the start of its concurrent measurements; with `during`, of the measured time."""


_ECHOES = 20


class Ping(Between):
    """Round-trip time by ICMP echo. Gives `rtt` (median, ms), `rtt_min`, `rtt_p99`, `ping_loss`.

    From 1000 echoes on also `rtt_p999`.
    """

    probe: Literal["ping"]
    """The tool: ICMP echo."""
    count: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Echo requests sent. Default: 20; with `during`, as many as its measured time holds."""
    interval: Duration = Duration(0.1)
    """Time between them."""
    size: Annotated[int, Field(ge=8, le=65_507)] = 56
    """ICMP payload, bytes."""

    @property
    def seconds(self) -> float:
        """From the first echo to the last."""
        return self.echoes * float(self.interval)

    @property
    def echoes(self) -> int:
        """Echo requests sent."""
        return self.count or _ECHOES


class PathMtu(Between):
    """Largest packet that passes whole, as a host finds it from what routers tell (RFC 1191).

    Gives `path_mtu` (bytes). A size that is neither answered nor told to be too large is an error.
    """

    probe: Literal["path-mtu"]
    """The tool: ICMP echo in packets that must not be fragmented."""
    size: Annotated[int, Field(ge=68, le=65_535)] = 1500
    """Largest packet tried, bytes."""

    @property
    def seconds(self) -> float:
        """Two sizes, the first of which is too large."""
        return 6.0


class Bandwidth(Between):
    """Available bandwidth of a path with its error: of an idle one by packet trains.

    Of paths between gateways that carry traffic, `from` and `to` being gateways, without sending.

    Gives `available_bandwidth` with its 95 % interval `available_bandwidth_low` and
    `available_bandwidth_high`, `path_capacity` (Mbit/s of frames), `estimate_error` (% of the
    estimate), `probe_traffic` (% of the port), `probe_time` (s), `trains` and `trains_disturbed`.
    """

    probe: Literal["bandwidth"]
    """The tool: trains of `hawserd load`, or what gateways measure."""
    method: Literal["trains", "passive"] = "trains"
    """Trains on an idle path; or reading, once a second, the rates of loaded paths of gateways."""
    port: Rate
    """Declared rate of the sending port, which bounds the estimate and the trains."""
    share: Ratio = Ratio(0.01)
    """Share of the port's bits during `duration` that the trains may take."""
    duration: Duration = Duration(60)
    """Time over which they are spread."""
    size: Annotated[int, Field(ge=200, le=1514)] = 1514
    """Largest frame, bytes without frame check sequence. At low rates frames are smaller."""

    @property
    def seconds(self) -> float:
        """The trains and what starts them, or the readings."""
        return float(self.duration) + (2 if self.method == "trains" else 0)


class Protocol(StrEnum):
    """Transport protocol of iperf3."""

    TCP = "tcp"
    UDP = "udp"
    MPTCP = "mptcp"


class Iperf3(Between):
    """Goodput by iperf3.

    Gives `goodput` (Mbit/s of payload), and for TCP `retransmissions`, for UDP `loss` and `jitter`;
    with several streams `fairness` (Jain's index of their goodputs).
    If events take something down, also `failover_time`, `reversion_time` (ms) and `goodput_min`.
    """

    probe: Literal["iperf3"]
    """The tool: iperf3."""
    protocol: Protocol = Protocol.TCP
    """Transport protocol."""
    streams: Annotated[int, Field(ge=1, le=128)] = 1
    """Parallel connections or flows."""
    reverse: bool = False
    """Whether `to` sends and `from` receives."""
    duration: Duration = Duration(10)
    """Measured time, whole seconds."""
    warmup: Duration = Duration(2)
    """Discarded at the start, in addition to the duration."""
    rate: Rate | None = None
    """Offered payload rate of all streams together. Required for UDP; default for TCP: no limit."""
    length: Size | None = None
    """Bytes of each write; for UDP, of each datagram."""
    interval: Duration = Duration(1)
    """Of the time series: goodput, and for TCP `cwnd` and `srtt`; below 1 s also of queues."""
    congestion: str | None = None
    """Congestion control of the sender, as the kernel names it."""

    @property
    def seconds(self) -> float:
        """Warm-up and test."""
        return float(self.warmup) + float(self.duration)


class Http(Between):
    """Requests per second by wrk, against nginx on the target.

    Each connection sends its next request when the response is complete (closed loop), unless
    there is a `request_rate`. Gives `requests` (1/s), `http_latency_p50`, `_p90`, `_p99` and, from
    1000 requests on, `_p999` (ms), `http_errors` (requests); without `keepalive` also `connections`
    (1/s, counted by the target's kernel); with `request_rate` also `http_unsent` (requests).
    """

    probe: Literal["http"]
    """The tools: wrk at the source, nginx at the target."""
    connections: Annotated[int, Field(ge=1, le=20_000)] = 16
    """Concurrent connections of all threads together."""
    threads: Annotated[int, Field(ge=1, le=64)] = 1
    """Threads of wrk, among which connections are divided."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Worker processes of nginx."""
    port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """Port of nginx. Default: the first free one from 5201 on."""
    keepalive: bool = True
    """Whether connections carry many requests each, or only one."""
    request_rate: Annotated[float | None, Field(gt=0, le=1e6)] = None
    """Requests per second, sent when they are due, answered or not (open loop)."""
    size: Size = Size(1_000)
    """Bytes of the requested object, without headers."""
    duration: Duration = Duration(10)
    """Measured time, whole seconds."""
    warmup: Duration = Duration(1)
    """Duration of a separate run before, which is discarded; whole seconds."""

    @property
    def seconds(self) -> float:
        """Warm-up and test."""
        return float(self.warmup) + float(self.duration)


class Traffic(Between):
    """Traffic of the load generator from `from` to `to`."""

    flows: Flows = Flows()
    """Addresses and ports."""
    sizes: Sizes
    """Frame sizes."""
    counted: Counted = "frame"
    """Which bytes sizes and rates count."""
    dscp: Annotated[int, Field(ge=0, le=63)] = 0
    """Differentiated services code point of all frames."""
    backend: Backend = "auto"
    """How frames are sent and received."""
    catch_up: Duration = Duration(0.01)
    """Frames that would be sent later than this are skipped and counted as `unsent`."""


class Load(Traffic):
    """A constant load in which each frame is accounted for.

    Gives `received` (Mbit/s as `counted`), `loss`, `duplicated`, `reordered` and `unsent` (% of
    frames), and `delay`, `delay_p99` and `variation_p99` (ms, one way).
    """

    probe: Literal["load"]
    """The tool: `hawserd load`."""
    rate: Rate
    """Offered load, as `counted`."""
    duration: Duration = Duration(10)
    """Measured time."""

    @property
    def seconds(self) -> float:
        """Calibration, trial and drain."""
        return float(self.duration) + 3


class Throughput(Traffic):
    """The highest load without more than the allowed loss.

    Gives `throughput` (Mbit/s as `counted`) and `throughput_frames` (frames/s), what is forwarded
    at that load, both called `conditional_...` if trials are shorter than the 60 s of RFC 2544; at
    that load, at which a queue may be full, `loss`, `duplicated`, `reordered`, `unsent` (%),
    `delay`, `delay_p99` and `variation_p99` (ms, one way); and `trials_repeated` (trials). With
    `part_load` also `part_load_loss`, `part_load_delay`, `part_load_delay_p99` and
    `part_load_variation_p99`, without that queue. With `partial_drop` also `pdr`, `pdr_frames`,
    `pdr_loss`, `pdr_delay`, `pdr_delay_p99` and `pdr_variation_p99`.
    """

    probe: Literal["throughput"]
    """The tool: `hawserd load`, trial by trial."""
    mode: Literal["rfc2544", "mlr"] = "mlr"
    """Binary search (RFC 2544 section 26.1), or MLRsearch (RFC 9971) towards the same goal."""
    trial: Duration = Duration(60)
    """Duration of a trial that decides; in `mlr`, shorter ones come before."""
    trials: Annotated[int, Field(ge=1, le=1000)] = 1
    """Trials at one load that decide together."""
    exceed: Ratio = Ratio(0)
    """Goal exceed ratio: share of these trials that may lose more than `loss`."""
    loss: Ratio = Ratio(0)
    """Goal loss ratio: share of frames that may be lost."""
    partial_drop: Ratio | None = None
    """A second, larger goal loss ratio, searched by the same trials: the partial drop rate."""
    resolution: Ratio = Ratio(0.002)
    """Goal width: distance of the bounds at the end of the search, as a share of the upper one; the
    goal loss ratio if that is larger."""
    min_load: Rate = Rate(1e6)
    """Minimum load. A path that loses frames at this load is not searched."""
    max_load: Rate | None = None
    """Maximum load. Default: 80 % of what the generator can send."""
    drain: Duration = Duration(0.5)
    """Wait after the last frame of a trial before its counters are read."""
    search_limit: Duration = Duration(3600)
    """Longest duration of the search: no trial begins that would end later."""
    part_load: Ratio | None = None
    """Share of the found load at which delays are measured in addition."""
    loss_curve: bool = False
    """Measure the frame loss rate (RFC 2544 section 26.3) too: `frame_loss` (%) by load."""
    back_to_back: Annotated[int, Field(ge=0, le=50)] = 0
    """Repetitions of the back-to-back frames test (RFC 9004): `burst` (frames), `buffer` (ms)."""

    @property
    def seconds(self) -> float:
        """A guess: a binary search over three decades, or a third of it."""
        trials = 14 if self.mode == "rfc2544" else 5
        if self.partial_drop is not None:
            trials += trials // 2
        return trials * self.trials * (float(self.trial) + float(self.drain) + 1)


Measurement = Annotated[
    Ping | PathMtu | Bandwidth | Iperf3 | Http | Load | Throughput, Field(discriminator="probe")
]


def rounds(measurements: Mapping[str, Measurement]) -> list[list[str]]:
    """Give the names of the measurements in their order, those together that run together."""
    found: dict[str, list[str]] = {}
    for name, measurement in measurements.items():
        first = name
        if measurement.beside or measurement.during:
            first = _first(measurements, measurement.beside or measurement.during or name)
        found.setdefault(first, []).append(name)
    return list(found.values())


def rivals(measurements: Mapping[str, Measurement], names: Sequence[str]) -> list[list[str]]:
    """Of measurements that run together, those of iperf3 in one direction, if several."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in names:
        each = measurements[name]
        if isinstance(each, Iperf3):
            ends = each.source.partition(".")[0], each.target.partition(".")[0]
            found.setdefault(ends[::-1] if each.reverse else ends, []).append(name)
    return [several for several in found.values() if len(several) > 1]


def _first(measurements: Mapping[str, Measurement], name: str) -> str:
    """The measurement that begins the round of another one.

    Checks call this before they know that names exist and that nothing refers to itself.
    """
    for _ in measurements:
        each = measurements.get(name)
        if each is None or not (each.beside or each.during):
            break
        name = each.beside or each.during or name
    return name


def offset(measurements: Mapping[str, Measurement], name: str) -> float:
    """Seconds from the start of a round to that of a measurement in it."""
    begins = 0.0
    for _ in measurements:
        measurement = measurements[name]
        begins += float(measurement.start)
        within = measurements.get(measurement.during or "")
        if measurement.during is None or within is None:
            break
        begins += float(warmup(within))
        name = measurement.during
    return begins


def warmup(measurement: Measurement) -> Duration:
    """Time at the start of a measurement that does not count."""
    return measurement.warmup if isinstance(measurement, Iperf3 | Http) else Duration(0)


def window(measurements: Mapping[str, Measurement], name: str) -> float | None:
    """Seconds that a measurement with `during` may take; None if there is no such limit."""
    measurement = measurements[name]
    within = measurements.get(measurement.during or "")
    if not isinstance(within, Iperf3 | Http | Load):
        return None
    return float(within.duration) - float(measurement.start)


def fitted(measurements: Mapping[str, Measurement], name: str) -> Measurement:
    """A measurement as it is carried out: echoes without a count fill the time they are given."""
    measurement, seconds = measurements[name], window(measurements, name)
    if not isinstance(measurement, Ping) or measurement.count is not None or seconds is None:
        return measurement
    # The first echo is one more than is counted, and the last one is to come back in time.
    count = max(1, int(seconds / float(measurement.interval) + 1e-9) - 1)
    return measurement.model_copy(update={"count": count})


def expected_seconds(measurements: Mapping[str, Measurement]) -> float:
    """How long the measurements of a trial are expected to take."""

    def end(name: str) -> float:
        return offset(measurements, name) + fitted(measurements, name).seconds

    return sum(max(map(end, names)) for names in rounds(measurements))
