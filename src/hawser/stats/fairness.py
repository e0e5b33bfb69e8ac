"""How evenly a resource is shared."""

from __future__ import annotations

from collections.abc import Sequence


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 if all shares are equal, 1/n if one has everything.

    (sum x)^2 / (n sum x^2). Jain, Chiu and Hawe, DEC-TR-301, 1984; RFC 5166 section 2.5.

    Args:
        shares: one a flow, none negative.

    Returns:
        None if there is no flow, or all have nothing.
    """
    largest = max(shares, default=0.0)
    if largest <= 0:
        return None
    scaled = [share / largest for share in shares]  # squares of tiny ones would underflow
    return sum(scaled) ** 2 / (len(scaled) * sum(share * share for share in scaled))
