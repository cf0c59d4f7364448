"""The result of a simulated server: the JSON object and the rows of section 9 of the specification."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from astra_sim_serving.figures import ObjectFigures, RequestFigures, e2e, meets, tpot, ttft
from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.iteration_time import PricingCounts
from astra_sim_serving.metrics import WeightedValues
from astra_sim_serving.options import SloOptions
from astra_sim_serving.recorded import RecordedGaps, RecordedSequences
from astra_sim_serving.request import PARTS
from astra_sim_serving.request import Sequence as RequestSequence
from astra_sim_serving.speculation import Speculation

SCHEMA = 1
COLUMNS = (
    "request", "arrival_s", "scheduled_s", "first_token_s", "last_token_s", "input", "cached", "output", "preemptions", "instance",
    "prefill_instance", "ttft_s", "tpot_s", "e2e_s", "met_slo",
)  # fmt: skip
"""Columns of the file of requests; if there are several models, `model` follows."""
OF_MODEL = (
    "requests", "throughput", "ttft_s", "tpot_s", "itl_s", "e2e_s", "queue_s", "goodput", "kv", "cost", "scaling", "speculation", "lora",
    "explanation",
)  # fmt: skip
"""What the JSON object has of each of several models, as far as there is some, besides `npus`."""


@attrs.define(eq=False)
class ServingResult:
    """A run. Times are in seconds; `sequences` are the requests in order of arrival, with their state.

    `models` has the results of the requests for each model, if pools name models. The rates of these are over the makespan of the `fleet`,
    so that they add up.
    """

    sequences: Sequence[RequestSequence]
    instances: Sequence[ServingInstance]
    gaps: WeightedValues | RecordedGaps
    pricing: PricingCounts
    npus: int
    slo: SloOptions
    seed: int
    version: str
    front_end_s: float = 0.0
    warmup_s: float = 0.0
    transfer_s: float = 0.0
    transfers: int = 0
    events: int = 0
    is_complete: bool = True
    speculation: Speculation | None = None
    scaling: dict[str, float] | None = None
    models: dict[str, ServingResult] = attrs.field(factory=dict)
    fleet: ServingResult | None = None
    usd: float | None = None

    @property
    def finished(self) -> list[RequestSequence]:
        """Requests whose answers are complete."""
        return [each for each in self.sequences if each.is_done]

    @property
    def figures(self) -> RequestFigures:
        """Figures of the requests."""
        return self.sequences.figures if isinstance(self.sequences, RecordedSequences) else ObjectFigures(self.sequences)

    @property
    def makespan_s(self) -> float:
        """Seconds from the first arrival to the last token; of the whole fleet. 0 without a token."""
        if self.fleet is not None:
            return self.fleet.makespan_s
        if not self.sequences:
            return 0.0
        return max(0.0, self.figures.last_token() - self.sequences[0].request.arrival)

    def ttft(self, sequence: RequestSequence) -> float:
        """Seconds from the arrival of a request to its first token."""
        return ttft(sequence)

    def tpot(self, sequence: RequestSequence) -> float | None:
        """Seconds for each token after the first; None if there is one token."""
        return tpot(sequence)

    def e2e(self, sequence: RequestSequence) -> float:
        """Seconds from the arrival of a request to its last token."""
        return e2e(sequence)

    def meets_slo(self, sequence: RequestSequence) -> bool:
        """Whether a request has met all limits that are given."""
        return meets(self.slo, sequence)

    def include(self, part: ServingResult, sequences: Sequence[RequestSequence]) -> None:
        """Complete the result of a model by its requests, and this one by its gaps, unless it has them, and drafts."""
        part.sequences = sequences
        part.is_complete = self.is_complete
        if isinstance(self.gaps, WeightedValues) and isinstance(part.gaps, WeightedValues):
            self.gaps.include(part.gaps)
        if part.speculation is not None:
            self.speculation = self.speculation or attrs.evolve(part.speculation, drafted=0, accepted=0)
            self.speculation.include(part.speculation)

    def document(self) -> dict[str, Any]:
        """The result as JSON has it; of one of several models the part in `models`."""
        document = self._document()
        if self.fleet is not None:
            return {"npus": self.npus, **{key: document[key] for key in OF_MODEL if key in document}}
        return document

    def _document(self) -> dict[str, Any]:
        """The JSON object of a whole run."""
        figures, span = self.figures, self.makespan_s
        tokens = figures.tokens()
        return {
            "schema": SCHEMA,
            "requests": self._requests(),
            "makespan_s": span,
            "throughput": {
                "requests_s": _rate(figures.finished(), span),
                "output_tokens_s": _rate(tokens, span),
                "output_tokens_s_per_npu": _rate(tokens, span * self.npus if self.scaling is None else self.scaling["npu_s"]),
                "steady_requests_s": self._steady_rate(),
            },
            "ttft_s": figures.summary("ttft"),
            "tpot_s": figures.summary("tpot"),
            "itl_s": self.gaps.summary(),
            "e2e_s": figures.summary("e2e"),
            "queue_s": figures.summary("queue"),
            "goodput": self._goodput(span),
            "kv": self._kv(),
            **({} if self.usd is None else {"cost": self._cost(self.usd, tokens)}),
            "instances": [self._instance(each, span) for each in self.instances],
            **({} if self.scaling is None else {"scaling": self.scaling}),
            **({} if self.speculation is None else {"speculation": self.speculation.document()}),
            **self._lora(),
            "time": self._time(span),
            "explanation": figures.explanation(self.front_end_s),
            "pricing": attrs.asdict(self.pricing),
            **({"models": {name: part.document() for name, part in self.models.items()}} if self.models else {}),
            "events": self.events,
            "complete": self.is_complete,
            "seed": self.seed,
            "version": self.version,
        }

    def _requests(self) -> dict[str, Any]:
        """The number of requests that arrived, finished, were shed and preempted."""
        figures = self.figures
        reasons, finished = figures.shed_reasons(), figures.finished()
        shed, (preempted, preemptions) = sum(reasons.values()), figures.preempted()
        return {
            "arrived": len(self.sequences),
            "finished": finished,
            "shed": shed,
            "unfinished": len(self.sequences) - finished - shed,
            "preempted": preempted,
            "preemptions": preemptions,
            "shed_reasons": reasons,
        }

    def _steady_rate(self) -> float | None:
        """Requests that finish a second between the first arrival, after the warm-up, and the last arrival."""
        if not self.sequences:
            return None
        begin, end = self.sequences[0].request.arrival + self.warmup_s, self.sequences[-1].request.arrival
        if end <= begin:
            return None
        return self.figures.finished_between(begin, end) / (end - begin)

    def _goodput(self, span: float) -> dict[str, Any]:
        slo = {key: value for key, value in attrs.asdict(self.slo).items() if value is not None}
        met = self.figures.within(self.slo)
        return {"requests_s": _rate(met, span), "fraction": met / len(self.sequences) if self.sequences else None, "slo": slo}

    def _cost(self, usd: float, tokens: int) -> dict[str, float | None]:
        """Dollars of the run, of an hour, and of a million tokens of answers; and requests within the SLO for a dollar."""
        met = self.figures.within(self.slo)
        return {
            "usd": usd,
            "usd_per_hour": _rate(usd * 3600, self.makespan_s),
            "usd_per_million_output_tokens": usd * 1e6 / tokens if tokens else None,
            "goodput_requests_per_usd": met / usd if usd else None,
        }

    def _kv(self) -> dict[str, Any]:
        blocks = sum(each.scheduler.cache.blocks for each in self.instances)
        busy = sum(each.totals.busy_s * each.scheduler.cache.blocks for each in self.instances)
        looked = sum(each.scheduler.looked_up_tokens for each in self.instances)
        return {
            "blocks": blocks,
            "mean_use": sum(each.totals.kv_block_s for each in self.instances) / busy if busy else 0.0,
            "peak_use": max(each.totals.peak_blocks / each.scheduler.cache.blocks for each in self.instances),
            "prefix_hit_fraction": sum(each.scheduler.hit_tokens for each in self.instances) / looked if looked else 0.0,
            "tier_hit_fraction": sum(each.scheduler.loaded_tokens for each in self.instances) / looked if looked else 0.0,
        }

    def _lora(self) -> dict[str, Any]:
        """The number of requests with adapters, and of adapters loaded from the host; empty without adapters."""
        loads = [each.adapters.loads for each in self.instances if each.adapters is not None]
        return {"lora": {"requests": sum(each.request.adapter >= 0 for each in self.sequences), "loads": sum(loads)}} if loads else {}

    def _instance(self, instance: ServingInstance, span: float) -> dict[str, Any]:
        """The statistics of an instance in the JSON document; `span` is the duration of the run in seconds."""
        totals = instance.totals
        count = totals.iterations or 1
        return {
            "pool": instance.pool,
            **({"model": model} if (model := self._model_of(instance)) is not None else {}),
            "role": instance.role,
            "rank": instance.rank,
            "iterations": totals.iterations,
            "busy_fraction": _rate(totals.busy_s, span),
            "mean_batch": totals.sequences / count,
            "mean_tokens": totals.tokens / count,
            "preemptions": totals.preemptions,
            "kv_blocks": instance.scheduler.cache.blocks,
            "peak_kv_blocks": totals.peak_blocks,
        }

    def _model_of(self, instance: ServingInstance) -> str | None:
        """The name of the model of an instance, if there are several."""
        return next((name for name, part in self.models.items() if instance in part.instances), None)

    def _time(self, span: float) -> dict[str, float]:
        """Seconds of all instances by activity; together with `idle` they are the makespan times the instances."""
        parts = {part: sum(each.totals.parts[place] for each in self.instances) for place, part in enumerate(PARTS)}
        idle = span * len(self.instances) - sum(each.totals.busy_s for each in self.instances)
        return {**parts, "idle": max(0.0, idle), "transfer": self.transfer_s}

    def rows(self) -> list[dict[str, Any]]:
        """A row for each request, by `COLUMNS`, with its model if there are several; None for an absent value."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The same, one by one."""
        for each in self.sequences:
            yield {**self._row(each), "model": each.request.model} if self.models else self._row(each)

    def _row(self, sequence: RequestSequence) -> dict[str, Any]:
        request, done = sequence.request, sequence.is_done
        values = (
            request.index, request.arrival, _known(sequence.scheduled), _known(sequence.first_token), _known(sequence.last_token),
            request.input, sequence.cached, sequence.generated, sequence.preemptions, _known(sequence.instance),
            _known(sequence.prefill_instance), self.ttft(sequence) if sequence.first_token >= 0 else None,
            self.tpot(sequence) if done else None, self.e2e(sequence) if done else None, self.meets_slo(sequence),
        )  # fmt: skip
        return dict(zip(COLUMNS, values, strict=True))

    def csv(self) -> str:
        """The rows as CSV; cells are empty for absent values."""
        return csv_of(self._rows(), (*COLUMNS, "model") if self.models else COLUMNS)


def csv_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Rows as CSV; `columns` are all that rows have, by default. Cells are empty if a row lacks a value."""
    if not columns:
        rows = list(rows)
        columns = list(dict.fromkeys(name for row in rows for name in row))
    names = columns
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def _rate(amount: float, span: float) -> float:
    return amount / span if span > 0 else 0.0


def _known(value: float) -> float | None:
    return value if value >= 0 else None


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.9g}" if isinstance(value, float) else value


def flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Numbers of a document by dotted names, lists left out."""
    result: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            result[prefix + key] = value
    return result
