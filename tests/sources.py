"""Folders of a checkout that hold packages, for the path of processes that a test starts."""

FOLDERS = ("", "protos", "client", "aggregator", "simulation", "papers")
