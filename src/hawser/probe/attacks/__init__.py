"""Attacks by real tools and benign traffic beside them, labelled while they are made.

schedule   who attacks whom when, by a seed (pure)
attackers  command lines of attacks (pure)
clients    command lines of benign sessions (pure)
servers    what the servers serve
session    one command, from its start to its label
beside     all of it beside a trial's measurements
"""
