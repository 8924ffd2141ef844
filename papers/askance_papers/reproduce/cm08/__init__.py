"""CM08: Chaudhuri, Monteleoni, Privacy-preserving logistic regression."""
