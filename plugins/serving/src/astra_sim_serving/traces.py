"""Files of requests, whose formats are recognised by their content.

Columns or keys of one format become rows `arrival_s, input, output` with further ones: priority, session, tenant, model, blocks of prompts.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import warn
from astra_sim.files import check_cells, csv_rows, parse_json, read_text

MOONCAKE_BLOCK = 512
"""Tokens of a block of Mooncake's traces."""


@attrs.frozen
class TraceRow:
    """A request of a trace. `arrival_s` counts from any moment."""

    arrival_s: float
    input: int
    output: int
    priority: int = 0
    session: str = ""
    tenant: str = ""
    blocks: tuple[int, ...] = ()
    block_tokens: int = 0
    model: str = ""


@attrs.frozen
class TraceFormat:
    """A format: the columns or keys that all of its rows have, and how a row is read. `is_failed`: the row is left out."""

    name: str
    keys: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], TraceRow]
    is_failed: Callable[[Mapping[str, Any]], bool] = lambda row: False


def read_trace(path: str, run: str | None = None) -> list[TraceRow]:
    """The requests of a file in order of arrival, the first at 0 s. Raises InputError naming line, key and value."""
    text = read_text(path)
    if not text.strip():
        raise InputError(f"{path}: the file is empty; expected a trace of requests")
    rows, where = _rows_of(text, path)
    if run is not None:
        rows = [(number, row) for number, row in rows if row.get("run") == run and row.get("kind", "request") == "request"]
        if not rows:
            raise InputError(f"{path}: no request has run = {run!r}")
    else:
        rows = [(number, row) for number, row in rows if row.get("kind", "request") == "request"]
        runs = sorted({str(row["run"]) for _, row in rows if "run" in row})
        if len(runs) > 1:
            raise InputError(f"{path}: it has requests of {len(runs)} runs; expected requests.run = one of {', '.join(runs)}")
    if not rows:
        raise InputError(f"{path}: it has no requests")
    form = _format_of(rows[0][1], path)
    failed = sum(form.is_failed(row) for _, row in rows)
    if failed:
        warn(f"{path}: {failed} of {len(rows)} requests have failed and are left out")
    result = [_read(form, row, f"{path}, {where} {number}") for number, row in rows if not form.is_failed(row)]
    if not result:
        raise InputError(f"{path}: all of its requests have failed")
    for (number, _), before, after in zip(rows[1:], result, result[1:], strict=False):
        if after.arrival_s < before.arrival_s:
            raise InputError(
                f"{path}, {where} {number}: it arrives at {after.arrival_s:g} s, before the one in front of it, at {before.arrival_s:g} s;"
                " expected requests in order of arrival"
            )
    begin = result[0].arrival_s
    return [attrs.evolve(row, arrival_s=row.arrival_s - begin) for row in result]


def _rows_of(text: str, path: str) -> tuple[list[tuple[int, Mapping[str, Any]]], str]:
    """The rows of lines of JSON, of the list in a JSON file, or of a table with commas, each with its number."""
    first = text.lstrip()[0]
    if first == "[" or (first == "{" and _is_one_object(text)):
        document = parse_json(text, path)
        rows = document if isinstance(document, list) else _benchmark_rows(document, path)
        if not all(isinstance(row, Mapping) for row in rows):
            raise InputError(f"{path}: expected a list of objects, one for each request")
        return list(enumerate(rows, 1)), "request"
    if first == "{":
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        parsed = [(number, parse_json(line, f"{path}, line {number}")) for number, line in lines]
        if not all(isinstance(row, Mapping) for _, row in parsed):
            raise InputError(f"{path}: expected an object in each line, one for each request")
        return parsed, "line"
    return list(_table_rows(text, path)), "line"


def _table_rows(text: str, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rows = csv_rows(text, path)
    _, heading = next(rows, (1, []))
    for number, cells in rows:
        check_cells(cells, heading, f"{path}:{number}")
        yield number, dict(zip(heading, cells, strict=True))


def _is_one_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _benchmark_rows(document: Mapping[str, Any], path: str) -> Sequence[Mapping[str, Any]]:
    """The requests of the result of vLLM's `benchmark_serving` (`vllm bench serve --save-detailed`)."""
    if "input_length" in document or "input" in document:
        return [document]
    inputs, outputs, starts = (document.get(key) for key in ("input_lens", "output_lens", "start_times"))
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise InputError(f"{path}: neither a list of requests nor a result of vLLM's benchmark with input_lens and output_lens")
    if not isinstance(starts, list) or len(starts) != len(inputs):
        raise InputError(
            f"{path}: this result of vLLM's benchmark has no start_times; expected a result of --save-detailed of a release that has them"
        )
    order = sorted(range(len(starts)), key=lambda number: starts[number])
    return [{"start_time": starts[number], "input_len": inputs[number], "output_len": outputs[number]} for number in order]


def _format_of(row: Mapping[str, Any], path: str) -> TraceFormat:
    for form in FORMATS:
        if all(key in row for key in form.keys):
            return form
    known = "; ".join(f"{form.name}: {', '.join(form.keys)}" for form in FORMATS)
    raise InputError(f"{path}: a trace of unknown format with {', '.join(map(str, list(row)[:8]))}; known: {known}")


def _read(form: TraceFormat, row: Mapping[str, Any], where: str) -> TraceRow:
    try:
        trace_row = form.read(row)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where}: {error} ({form.name})") from None
    if not trace_row.arrival_s >= 0 or trace_row.arrival_s > 1e12:
        raise InputError(f"{where}: it arrives at {trace_row.arrival_s!r} s; expected a time of at least 0")
    for name, value in (("input", trace_row.input), ("output", trace_row.output)):
        if not 1 <= value < 1 << 40:
            raise InputError(f"{where}: {name} is {value!r} tokens; expected at least 1")
    return trace_row


def _whole(row: Mapping[str, Any], key: str) -> int:
    value = row[key]
    number = float(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number != int(number):
        raise ValueError(f"{key} is {value!r}; expected a whole number")
    return int(number)


def _number(row: Mapping[str, Any], key: str) -> float:
    value = row[key]
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{key} is {value!r}; expected a number") from None
    if isinstance(value, bool) or math.isnan(number):
        raise ValueError(f"{key} is {value!r}; expected a number")
    return number


def _moment(row: Mapping[str, Any], key: str) -> float:
    """Seconds of a date and time, to 100 ns; or a number of seconds."""
    text = str(row[key]).strip()
    try:
        return float(text)
    except ValueError:
        pass
    whole, _, fraction = text.partition(".")
    digits = "".join(letter for letter in fraction if letter.isdigit()) if fraction else ""
    try:
        moment = datetime.datetime.fromisoformat(whole.removesuffix("Z"))
    except ValueError:
        raise ValueError(f"{key} is {text!r}; expected a date and time such as 2023-11-16 18:17:03.98") from None
    return moment.replace(tzinfo=datetime.UTC).timestamp() + (float(f"0.{digits}") if digits else 0.0)


def _mooncake(row: Mapping[str, Any]) -> TraceRow:
    """A row with the numbers of its blocks."""
    ids = row["hash_ids"]
    if not isinstance(ids, list) or not all(isinstance(each, int) for each in ids):
        raise ValueError(f"hash_ids is {ids!r:.80}; expected a list of whole numbers")
    return TraceRow(
        _number(row, "timestamp") / 1e3,
        _whole(row, "input_length"),
        _whole(row, "output_length"),
        blocks=tuple(ids),
        block_tokens=MOONCAKE_BLOCK,
        model=str(row.get("model") or ""),
    )


def _own(row: Mapping[str, Any]) -> TraceRow:
    return TraceRow(
        _number(row, "arrival_s" if "arrival_s" in row else "queued_s"),
        _whole(row, "input"),
        _whole(row, "output"),
        priority=_whole(row, "priority") if row.get("priority") not in (None, "") else 0,
        session=str(row.get("session") or ""),
        tenant=str(row.get("tenant") or ""),
        model=str(row.get("model") or ""),
    )


def _simple(name: str, arrival: str, prompt: str, answer: str, session: str = "", model: str = "model") -> TraceFormat:
    """A format of three columns, the first of which may be a date, and perhaps a session and a model."""
    return TraceFormat(
        name,
        (arrival, prompt, answer),
        lambda row: TraceRow(
            _moment(row, arrival),
            _whole(row, prompt),
            _whole(row, answer),
            session=str(row.get(session) or ""),
            model=str(row.get(model) or ""),
        ),
    )


_BURSTGPT = _simple("BurstGPT", "Timestamp", "Request tokens", "Response tokens", "Session ID", "Model")

FORMATS = (
    TraceFormat("own", ("arrival_s", "input", "output"), _own),
    TraceFormat("measured requests", ("queued_s", "input", "output"), _own),
    _simple("Azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    TraceFormat("Mooncake", ("timestamp", "input_length", "output_length", "hash_ids"), _mooncake),
    attrs.evolve(_BURSTGPT, is_failed=lambda row: str(row["Response tokens"]).strip() in ("0", "0.0")),
    _simple("Vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    _simple("Splitwise", "arrival_timestamp", "prompt_size", "token_size"),
    _simple("vLLM benchmark", "start_time", "input_len", "output_len"),
)
"""Formats in the order in which they are tried. Sources: section 3.2 of the specification of serving, and the repositories it names."""
