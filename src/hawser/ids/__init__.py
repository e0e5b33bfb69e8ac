"""Intrusion detection: models are trained from labelled flow records, judged and explained.

`records` and `labels` are read from files, `flows` puts records of one flow together, `train` makes
a model, `table` is the model file that the daemon scores with. numpy, scikit-learn and pyarrow
are imported by the modules that need them, never by this one.
"""
