"""Attacks by real tools and benign traffic beside them, labelled while they are made.

schedule   who attacks whom when, by a seed (pure)
attackers  command lines of attacks (pure)
clients    command lines of benign sessions (pure)
servers    what the servers serve
host       a host attacks or is benign, never both
command    one command, from its start to its end
recorder   labels and counts
packets    what a capture holds (pure)
passed     what got through a chain, by captures on both sides
beside     all of it beside a trial's measurements
"""
