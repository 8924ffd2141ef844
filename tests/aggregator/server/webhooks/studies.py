"""Signed studies whose ends are sent."""

from __future__ import annotations

from askance_client.messages import Repeat
from tests.aggregator.server.studies.conftest import study

STUDY = study(1, purpose="Schooling of users.").study
REPEATED = study(2, purpose="Smokers.", repeat=Repeat(7, 3, 100)).study
