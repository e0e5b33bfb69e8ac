"""What all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A slow or shared machine is no mistake of what is tested. `make test` has the same examples each
# time, so that it judges the change, and `make test-fast` the first of them; pytest by hand looks
# for new ones.
settings.register_profile("explore", deadline=None)
settings.register_profile("repeat", deadline=None, derandomize=True)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=20)
settings.load_profile(os.environ.get("HAWSER_EXAMPLES", "explore"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs root where there is none, and say so."""
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: it makes network namespaces")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)
