"""Commands of the papers, found by the group of entry points `askance.commands`."""
