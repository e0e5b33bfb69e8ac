"""CIC-IDS2017: the files `GeneratedLabelledFlows` of CICFlowMeter (I. Sharafaldin et al., 2018).

Times are local (Atlantic daylight time), to the minute in most files, and of a clock of 12 hours
without its half of the day: the captures were made from 8 to 17 o'clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Final

from hawser.store.labels import field
from hawser.store.labels.rows import Label

_ZONE: Final = timezone(timedelta(hours=-3))
_FIRST_HOUR: Final = 8
"""Earlier hours are of the afternoon."""
_MINUTE_US, _SECOND_US = 60_000_000, 1_000_000
_NEEDED: Final = (
    *("Source IP", "Source Port", "Destination IP", "Destination Port", "Protocol"),
    *("Timestamp", "Flow Duration", "Label"),
)

Columns = Mapping[str, int]


def columns(header: Sequence[str]) -> Columns | None:
    """Where each needed column of a header stands; None if it is not that of such a file."""
    names = [name.strip() for name in header]
    if "Flow ID" not in names or any(name not in names for name in _NEEDED):
        return None
    return {name: names.index(name) for name in _NEEDED}


def label(row: Sequence[str], at: Columns) -> Label | None:
    """Parse a line; None for the empty ones at the end of some files.

    Raises:
        ValueError: a field is wrong; the message says how.
    """
    if not any(each.strip() for each in row):
        return None
    if len(row) <= max(at.values()):
        raise ValueError(f"found {len(row)} fields, expected more than {max(at.values())}")
    found = {name: row[place].strip() for name, place in at.items()}
    protocol = int(found["Protocol"])
    first, unit = _time(found["Timestamp"])
    if not found["Label"]:
        raise ValueError("Label: found nothing, expected BENIGN or the name of an attack")
    return Label(
        label=field.name(found["Label"]),
        first_us=first,
        last_us=first + unit - 1 + max(0, int(float(found["Flow Duration"]))),
        protocol=protocol,
        source=field.host(found["Source IP"]),
        source_ports=field.port(found["Source Port"], protocol),
        target=field.host(found["Destination IP"]),
        target_ports=field.port(found["Destination Port"], protocol),
    )


def _time(text: str) -> tuple[int, int]:
    """Time, microseconds since 1970, and how long its last unit is."""
    exact = text.count(":") > 1
    found = datetime.strptime(text, "%d/%m/%Y %H:%M:%S" if exact else "%d/%m/%Y %H:%M")  # noqa: DTZ007
    if found.hour < _FIRST_HOUR:
        found += timedelta(hours=12)
    seconds = int(found.replace(tzinfo=_ZONE).timestamp())
    return seconds * _SECOND_US, _SECOND_US if exact else _MINUTE_US
