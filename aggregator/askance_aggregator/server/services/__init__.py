"""Calls of analysts and operators, served: authenticated, bounded, answered by the manager."""
