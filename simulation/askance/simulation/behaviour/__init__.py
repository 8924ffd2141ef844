"""Behaviour: how simulated devices differ from ones that are always there and honest."""

from askance.simulation.behaviour.behaviour import PRESENT_AND_HONEST, Behaviour

__all__ = ["PRESENT_AND_HONEST", "Behaviour"]
