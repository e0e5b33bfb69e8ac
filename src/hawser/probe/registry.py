"""Which probe carries out which measurement."""

from __future__ import annotations

from hawser.probe.base import Probe
from hawser.probe.http import HttpProbe
from hawser.probe.iperf3 import Iperf3Probe
from hawser.probe.load.probe import LoadProbe
from hawser.probe.path_mtu import PathMtuProbe
from hawser.probe.ping import PingProbe
from hawser.probe.search.probe import ThroughputProbe
from hawser.spec.measurement import (
    Bandwidth,
    Http,
    Iperf3,
    Load,
    Measurement,
    PathMtu,
    Ping,
    Throughput,
)


def probe_for(measurement: Measurement) -> Probe:
    """The probe of a measurement."""
    match measurement:
        case Ping():
            return PingProbe(measurement)
        case PathMtu():
            return PathMtuProbe(measurement)
        case Bandwidth():
            return _bandwidth(measurement)
        case Iperf3():
            return Iperf3Probe(measurement)
        case Http():
            return HttpProbe(measurement)
        case Load():
            return LoadProbe(measurement)
        case Throughput():
            return ThroughputProbe(measurement)


def _bandwidth(measurement: Bandwidth) -> Probe:
    # These import scipy, which plans do not need.
    from hawser.probe.bandwidth.passive import PassiveBandwidthProbe
    from hawser.probe.bandwidth.probe import BandwidthProbe

    passive = measurement.method == "passive"
    return PassiveBandwidthProbe(measurement) if passive else BandwidthProbe(measurement)
