"""Pages of the console: a module each, with its routes in `ROUTES`; docs/adr/0065 says how."""

from types import ModuleType

from askance.console.pages import audit, devices, new_study, overview, studies, study

PAGES: tuple[ModuleType, ...] = (overview, studies, new_study, study, devices, audit)
"""Modules of pages, in the order of the navigation."""
