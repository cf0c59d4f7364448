"""`astra plugins check` finds components of all kinds that are broken on purpose, one by one and in time."""

from __future__ import annotations

import pytest
from astra_sim.setup.plugin_modules import KINDS
from astra_sim_devkit.testing.apart import check_apart
from support.broken_components import BROKEN

EACH = [(kind, name) for kind, components in BROKEN.items() for name in components]


def test_there_are_broken_components_of_every_kind() -> None:
    assert BROKEN.keys() == KINDS.keys() - {"explainer"}  # for which there is no contract
    assert len(EACH) >= 60


@pytest.mark.parametrize(("kind", "name"), EACH, ids=[f"{kind}: {name}" for kind, name in EACH])
def test_a_component_that_is_broken_is_found(kind: str, name: str) -> None:
    component, words, timeout_s = BROKEN[kind][name]
    problem, _ = check_apart(kind, component, timeout_s)
    assert problem is not None, "it is found to be well"
    assert words in problem
