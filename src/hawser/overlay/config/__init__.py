"""Configurations of all daemons, as models. Pure.

A configuration is written as JSON (schemas/ROLE-config.schema.json) by `model_dump_json()`. What it
names in a directory of its own is relative until it is `placed` there.
"""
