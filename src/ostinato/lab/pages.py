"""The pages, in the order of the menu."""

from __future__ import annotations

from ostinato.lab import claims, cost, gradient_flow, non_linearity, runs
from ostinato.lab.page import Page

PAGES: tuple[Page, ...] = (gradient_flow.page, cost.page, non_linearity.page, runs.page, claims.page)
