"""The analysts' calls, served: authenticated, bounded, and answered from the studies' manager."""
