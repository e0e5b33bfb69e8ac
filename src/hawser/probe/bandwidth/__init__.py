"""The probe `bandwidth`: trains sent and timed by `hawserd load`, judged by `hawser.stats`."""
