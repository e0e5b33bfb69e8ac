"""Kafka and the job on Spark on this machine, for tests and small sites.

Real clusters are named by `--brokers` and `--master` instead.
"""
