"""Runs: validate, plan, deploy, run, collect, report, tear down; each can be called by itself."""
