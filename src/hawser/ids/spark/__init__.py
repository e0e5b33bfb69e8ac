"""The job on Spark: scores the records of all sensors, and keeps them.

`python -m hawser.ids.spark` runs it. Spark and its packages are imported there alone.
"""
