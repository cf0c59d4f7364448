"""What drafts take on the device."""

from __future__ import annotations

import attrs

from astra_sim_serving.batch import BatchShape
from astra_sim_serving.iteration_time import IterationTime


@attrs.frozen(eq=False)
class LayerDraft:
    """Drafts by one more layer of the model for each token (multi-token prediction, EAGLE), with the head of the model."""

    time: IterationTime

    def parts_us(self, shape: BatchShape) -> tuple[float, float, float, float]:
        """Microseconds of products, attention, other kernels and collectives for the drafts of a batch."""
        gemm, attention, other, collective = self.time.layer_us(shape.drafting())
        rounds = shape.draft_rounds
        return gemm * rounds, attention * rounds, other * rounds, collective * rounds


@attrs.frozen(eq=False)
class ModelDraft:
    """Drafts by a smaller model, token by token."""

    time: IterationTime

    def parts_us(self, shape: BatchShape) -> tuple[float, float, float, float]:
        """The same for its iterations."""
        gemm, attention, other, collective, _ = self.time.step([shape.drafting()]).parts[0]
        rounds = shape.draft_rounds * 1e6
        return gemm * rounds, attention * rounds, other * rounds, collective * rounds
