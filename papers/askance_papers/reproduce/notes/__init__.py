"""The lecture notes: theorems on statistical queries, and the local model beside the central."""
