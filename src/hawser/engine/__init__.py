"""Runs: validate, plan, deploy, run, collect, report, tear down, each also callable separately."""
