"""The pages, in the order of the menu."""

from __future__ import annotations

from ostinato.lab import attention, claims, cost, gradient_flow, non_linearity, runs, state, typed, vectors
from ostinato.lab.page import Page

PAGES: tuple[Page, ...] = (
    gradient_flow.page,
    cost.page,
    non_linearity.page,
    typed.page,
    state.page,
    attention.page,
    vectors.page,
    runs.page,
    claims.page,
)
