"""Available bandwidth of a path, from trains of packets whose sending and arrival are timed.

Pure: no clock, no socket. A `Search` says which train to send next and takes what came of it; who
asks it sends. docs/design/bandwidth.md describes the method.
"""

from hawser.stats.bandwidth.estimate import Estimate, estimate, passive
from hawser.stats.bandwidth.search import Limits, Search
from hawser.stats.bandwidth.train import Arrivals, Train, is_disturbed

__all__ = (
    "Arrivals",
    "Estimate",
    "Limits",
    "Search",
    "Train",
    "estimate",
    "is_disturbed",
    "passive",
)
