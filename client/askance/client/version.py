"""The version of the whole distribution, in the one room that is always installed."""

__version__ = "0.1.0"
