"""Options of the explainer."""

from __future__ import annotations

import attrs
from astra_sim import option


@attrs.frozen
class ExplainOptions:
    """Options of an explanation."""

    reruns: bool = option(True, help="run again with 1 % more and less where the critical path does not tell")
    ranges: bool = option(False, help="find by further runs how far a parameter may change until another path is the longest")
