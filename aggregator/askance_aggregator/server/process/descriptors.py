"""Descriptors that an aggregator needs beside those of its connections."""

from __future__ import annotations

OTHER_DESCRIPTORS = 256
"""Descriptors of files, pages of metrics and check-ins' connections."""
