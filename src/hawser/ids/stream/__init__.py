"""Records from a sensor's log to Kafka, each exactly once.

`log` reads the files, `progress` says which of their records are new, `ship` sends them. Kafka's
transactions hold records and the place in the log together, so neither is there without the other.
"""
