"""Behaviour: how simulated devices differ from ones that are always there and honest."""

from askance.simulation.behaviour.attacks import ATTACKS
from askance.simulation.behaviour.behaviour import PRESENT_AND_HONEST, Behaviour
from askance.simulation.behaviour.misbehaviour import Misbehaving, Misbehaviour

__all__ = ["ATTACKS", "PRESENT_AND_HONEST", "Behaviour", "Misbehaving", "Misbehaviour"]
