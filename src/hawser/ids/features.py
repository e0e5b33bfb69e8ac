"""Names of what a flow record has: who talked, when, and the features.

As `hawserd flows` writes them; the features are those of flowtbag (D. Arndt, 2011).
"""

from __future__ import annotations

from typing import Final

TUPLE: Final = ("srcip", "srcport", "dstip", "dstport", "proto")
"""The columns that name a flow. No model sees them: they say who attacked, not what an attack is
like."""

NAMES: Final = (
    *("total_fpackets", "total_fvolume", "total_bpackets", "total_bvolume"),
    *("min_fpktl", "mean_fpktl", "max_fpktl", "std_fpktl"),
    *("min_bpktl", "mean_bpktl", "max_bpktl", "std_bpktl"),
    *("min_fiat", "mean_fiat", "max_fiat", "std_fiat"),
    *("min_biat", "mean_biat", "max_biat", "std_biat", "duration"),
    *("min_active", "mean_active", "max_active", "std_active"),
    *("min_idle", "mean_idle", "max_idle", "std_idle"),
    *("sflow_fpackets", "sflow_fbytes", "sflow_bpackets", "sflow_bbytes"),
    *("fpsh_cnt", "bpsh_cnt", "furg_cnt", "burg_cnt", "total_fhlen", "total_bhlen", "dscp"),
)
"""The features: bytes of IP packets, microseconds, counts; `f` is forward, `b` backward."""

DEFAULT: Final = tuple(name for name in NAMES if name != "dscp")
"""What models are trained on. A sender sets its DSCP as it likes, and a lab's tools each have
their own."""

LAST: Final = ("closed", "idle", "evicted", "ended")
"""Reasons of a flow's last record."""
REASONS: Final = ("early", "window", *LAST)
"""Why a record was made."""

WINDOW_US: Final = 2_000_000
"""Length of a window, microseconds, as published."""
IDLE_US: Final = 600_000_000
"""Silence that ends a flow, microseconds (flowtbag)."""
EARLY_US: Final = 50_000
"""Age at which a flow of few packets has its early record, microseconds."""
EARLY_PACKETS: Final = 8
"""Packets after which it has one anyway."""
