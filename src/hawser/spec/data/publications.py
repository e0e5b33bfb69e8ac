"""The publications whose experiments are workflows, with all their tables and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication and what it shows."""

    authors: str
    title: str
    where: str
    """Where and when it appeared, as far as it says."""
    results: dict[str, str]
    """What was measured or calculated: table, figure or section -> subject."""
    others: dict[str, str]
    """Tables and figures that show no result: drawings, parameters, prices."""
    without: dict[str, str] = field(default_factory=dict)
    """Why results have no workflow."""


PUBLICATIONS: Final[dict[str, Publication]] = {
    "lee": Publication(
        authors="Steven S. W. Lee, Kwan-Yee Chan and Ting-Yun Chen",
        title="Design and Implementation of an SD-WAN VPN System to Support Multipath and"
        " Multi-WAN-Hop Routing in the Public Internet",
        where="preprint, 30 October 2023",
        results={
            "Table I": "goodput over four paths of equal and unequal rates",
            "Figure 6": "transit through each other's branches, with and without priority",
            "Figure 10": "goodput where UDP traffic shares the bottlenecks",
            "Figure 11": "goodput where TCP connections share the bottlenecks",
            "Figure 12": "goodput where the member paths of a group are unequal",
        },
        others={
            "Figure 1": "system architecture",
            "Figure 2": "modules of a gateway",
            "Figure 3": "example of routes",
            "Figure 4": "example of labels and flow entries",
            "Figure 5": "modules of the controller",
            "Figure 7": "network of Table I",
            "Figure 8": "three ways to share a bottleneck",
            "Figure 9": "network of Figures 10 to 12",
            "Table II": "routes of the path groups",
            "Table III": "available bandwidths of Figure 10",
            "Table IV": "background connections of Figure 11",
            "Table V": "available bandwidths of Figure 12(a)",
            "Table VI": "background connections of Figure 12(b)",
        },
    ),
    "sanz": Publication(
        authors="Igor J. Sanz, Diogo M. F. Mattos and Otto C. M. B. Duarte",
        title="SFCPerf: An Automatic Performance Evaluation Framework for Service Function"
        " Chaining",
        where="Universidade Federal do Rio de Janeiro",
        results={
            "Figure 8(a)": "HTTP requests per second by length of the chain",
            "Figure 8(b)": "round-trip time by length of the chain",
            "Figure 8(c)": "throughput by length of the chain",
            "Figure 8(d)": "throughput of one function by cores",
            "Figure 9": "forwarder, proxy, firewall, intrusion detection",
            "Table I": "confusion matrix of live intrusion detection",
        },
        others={
            "Figure 1": "elements of service function chaining",
            "Figure 2": "modules of the framework",
            "Figure 3": "activities of the framework",
            "Figure 4": "structure of a workflow file",
            "Figure 5": "the evaluated chain",
            "Figure 6": "the SFC proxy",
            "Figure 7": "three placements",
        },
    ),
    "spinelli": Publication(
        authors="Francesco Spinelli, Luigi Iannone and Jerome Tollet",
        title="Multi-Cloud Chaining with Segment Routing",
        where="IMDEA Networks, Telecom Paris and Cisco",
        results={
            "Figure 2": "throughput between two regions, with and without an SRv6 router",
            "Figure 3": "round-trip time added by the SRv6 router",
            "Figure 5": "throughput of IPv4 in SRv6 and of IPv6 hosts",
            "Figure 6": "the same in the other direction",
            "Figure 7": "round-trip time of IPv4 in SRv6 and of IPv6 hosts",
            "Figure 8": "throughput through three regions",
            "Figure 9": "the same in the other direction",
        },
        others={
            "Figure 1": "topology",
            "Figure 4": "path of packets within a cloud",
        },
    ),
    "leivadeas": Publication(
        authors="Aris Leivadeas, Nikolai Pitaev and Matthias Falkner",
        title="Analyzing the Performance of SD-WAN Enabled Service Function Chains Across the"
        " Globe with AWS",
        where="ICPE 2023",
        results={
            "Table 4": "throughput and delay of all experiments",
            "Section 4.5": "delay over the public internet and over the transit gateway",
            "Figure 5": "Ohio, small instances, IMIX, by day and hour",
            "Figure 6": "Ohio, small instances, 361 B, by day and hour",
            "Figure 7": "Ohio, large instances, IMIX, by day and hour",
            "Figure 8": "Ohio, large instances, 361 B, by day and hour",
            "Figure 9": "Sydney, small instances, IMIX, by day and hour",
            "Figure 10": "Sydney, small instances, 361 B, by day and hour",
            "Figure 11": "Sydney, large instances, IMIX, by day and hour",
            "Figure 12": "Sydney, large instances, 361 B, by day and hour",
        },
        others={
            "Figure 1": "deployment from Oregon to Ohio",
            "Figure 2": "deployment from Oregon to Sydney",
            "Figure 3": "subnets of a VPC",
            "Figure 4": "peering of transit gateways",
            "Table 1": "related work",
            "Table 2": "the 100 flows",
            "Table 3": "instances and their prices",
            "Table 5": "prices of the transit gateway",
        },
        without={
            f"Figure {number}": "It shows how the load of the cloud changes from hour to hour, as"
            " curves without figures; an emulation could only play back what it was told. The means"
            " over all hours are in Table 4, which is reproduced."
            for number in range(5, 13)
        },
    ),
    "cutler": Publication(
        authors="Bruce Cutler",
        title="Examining cross-region communication speeds in AWS",
        where="Slalom Technology, 30 May 2018",
        results={
            "Table 1": "VPC peering and software VPN from Virginia to Sydney",
            "Table 2": "VPC peering and software VPN from Virginia to London",
            "Image 7": "Table 1 as a graph",
            "Image 8": "Table 2 as a graph",
        },
        others={
            "Image 1": "regions of AWS",
            "Image 2": "hub and spoke",
            "Image 3": "instances and their subnets",
            "Image 4": "setup of VPC peering",
            "Image 5": "route table",
            "Image 6": "IPsec configuration",
        },
    ),
}
