"""Names of nodes that a lab makes for itself; a workflow's nodes may not have them."""

from __future__ import annotations

INTERNET = "internet"
"""Stands for the internet."""
EMULATOR = "wan"
"""Delays, varies and loses packets."""
CONTROLLER = "ssc"
"""The SD-WAN system controller."""
BACKBONE = "backbone"
"""Behind the bottlenecks, where there are some."""
OTHERS = "others"
"""The host that TCP connections of cross traffic start from, if there are any."""

RESERVED = {
    INTERNET: "the internet",
    EMULATOR: "the WAN emulator",
    CONTROLLER: "the SD-WAN system controller",
}
"""Those that every lab may have, with their meaning."""
