"""Points that a sampler of Optuna proposes, and their results for it. Its study is in a storage that several machines may share.

A trial of the study is a proposal. Several may be the same point, which is run once; all have the constraints of their point, and the
first has the outcome of its run, so that each machine has the runs of all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import AstraError, InputError, RunError

from astra_sim_sweep.goals import MEMORY, Judgement
from astra_sim_sweep.journal import JournalRun
from astra_sim_sweep.plan import Point
from astra_sim_sweep.points import AxisGroup, shuffled
from astra_sim_sweep.search_files import SearchPlan

_MOST_REPEATS = 20
"""The number of proposals without a new point after which one is taken from a shuffle of all."""

_LONGEST_WALK = 200_000
_POINT, _MACHINE, _RUN, _SKIPPED = "astra_point", "astra_machine", "astra_run", "astra_skipped"
"""Attributes of a trial besides its parameters."""


@attrs.frozen
class _Sampler:
    """A class of samplers in Optuna, its arguments, and packages it needs beside Optuna."""

    name: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    takes_constraints: bool = True
    needs: str = ""
    keeps_seed: bool = False


_QUIET = {"warn_independent_sampling": False}
_SAMPLERS = {
    "tpe": _Sampler("TPESampler", {"warn_independent_sampling": False}),
    "random": _Sampler("RandomSampler"),
    "nsga2": _Sampler("NSGAIISampler"),
    "nsga3": _Sampler("NSGAIIISampler"),
    "cmaes": _Sampler("CmaEsSampler", _QUIET, False, "cmaes"),
    "qmc": _Sampler("QMCSampler", {**_QUIET, "warn_asynchronous_seeding": False}, True, "scipy", keeps_seed=True),
}


class Proposals:
    """The points of a search that are worth a run, as a study of Optuna has it.

    `machine` is a name of this process that stays when it resumes. Raises InputError if Optuna, a sampler's needs, or the storage are
    missing.
    """

    def __init__(self, search: SearchPlan, storage: str, machine: str) -> None:
        self._optuna = _optuna()
        self._search = search
        self._plan = search.plan
        self._machine = machine
        self._sampler = _SAMPLERS[search.options.sampler]
        if search.options.sampler == "cmaes" and len(search.goal.objectives) > 1:
            raise InputError("search: sampler is 'cmaes', which has one objective; expected one of tpe, nsga2, nsga3, random, qmc")
        with _quiet(self._optuna):
            self._sample(0)
            directions = ["maximize" if objective.maximize else "minimize" for objective in search.goal.objectives]
            self._study = _study(self._optuna, storage, _name(search), directions)
        self._groups = search.plan.points.groups
        self._distributions = {group.axes[0].name: self._distribution(group) for group in self._groups}
        self._reported: dict[int, Judgement] = {}
        self._runs: dict[int, JournalRun] = {}
        self._waiting: dict[int, list[Any]] = {}
        self._ours: set[int] = set()
        self._walked = 0
        self.skipped: dict[int, str] = {}

    def known(self) -> list[tuple[Point, JournalRun]]:
        """Results, new to this process, of points that others have run, or that it has run before."""
        result = []
        for trial in self._finished():
            number = trial.user_attrs.get(_POINT)
            if _SKIPPED in trial.user_attrs:
                self.skipped[number] = trial.user_attrs[_SKIPPED]
                self._reported[number] = _SKIP
            elif _RUN in trial.user_attrs and number not in self._runs:
                point = self._plan.point(number)
                run = JournalRun(point.key, point.parameters, *trial.user_attrs[_RUN])
                self._runs[number] = run
                result.append((point, run))
            self._ours.add(trial.number)
        return result

    def judged(self, point: Point, judgement: Judgement) -> None:
        """Take note how a point does that is known."""
        self._reported[point.number] = judgement

    def drop(self) -> None:
        """Delete the study."""
        self._optuna.delete_study(study_name=self._study.study_name, storage=self._study._storage)

    @property
    def runs(self) -> int:
        """Points that are run or have been."""
        return len(self._runs.keys() | self._waiting.keys())

    @property
    def numbers(self) -> list[int]:
        """The numbers of all points that have been run, by anyone, in order."""
        return sorted(self._runs)

    def points(self, absorb: Callable[[], None]) -> Iterator[Point]:
        """New points that are not skipped, until there are as many as are wanted, or no more.

        Before each it calls `absorb`, which takes the `known` results.
        """
        repeats = 0
        while True:
            absorb()
            if self.runs >= self._search.options.trials:
                return
            trial = self._ask(repeats >= _MOST_REPEATS)
            if trial is None:
                return
            number = self._number(trial.params)
            repeats += 1
            if number in self._reported:
                self._tell(trial, self._reported[number])
            elif number in self._waiting:
                self._waiting[number].append(trial)
            else:
                point = self._plan.point(number)
                trial.set_user_attr(_POINT, number)
                trial.set_user_attr(_MACHINE, self._machine)
                if point.skipped_by is not None:
                    self.skipped[number] = point.skipped_by
                    trial.set_user_attr(_SKIPPED, point.skipped_by)
                    self._reported[number] = _SKIP
                    self._tell(trial, _SKIP)
                else:
                    repeats = 0
                    self._waiting[number] = [trial]
                    yield point

    def tell(self, point: Point, run: JournalRun, judgement: Judgement) -> None:
        """Report the outcome of a point that was proposed."""
        self._reported[point.number] = judgement
        self._runs[point.number] = run
        first, *others = self._waiting.pop(point.number)
        first.set_user_attr(_RUN, [run.figures, run.error, run.wall_s])
        for trial in (first, *others):
            self._tell(trial, judgement)

    def give_up(self) -> None:
        """Say of trials that this process has left behind, when it was ended, that nothing comes of them."""
        states = self._optuna.trial.TrialState
        for trial in self._study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            if trial.user_attrs.get(_MACHINE) == self._machine:
                self._study.tell(trial.number, state=states.FAIL)

    def _finished(self) -> Iterator[Any]:
        states = self._optuna.trial.TrialState
        for trial in self._study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED)):
            if trial.number not in self._ours:
                yield trial

    def _ask(self, from_shuffle: bool) -> Any:
        """A new trial: the sampler's proposal, or the next of a shuffle that is new and not skipped; None: there is none."""
        with _quiet(self._optuna):
            if from_shuffle:
                number = self._next_of_shuffle()
                if number is None:
                    return None
                self._study.enqueue_trial(self._parameters(number))
            # A sampler for each proposal, seeded by how many there were, proposes the same after an interruption.
            fail = self._optuna.trial.TrialState.FAIL
            trials = [trial for trial in self._study.get_trials(deepcopy=False) if trial.state != fail]
            others = any(trial.user_attrs.get(_MACHINE, self._machine) != self._machine for trial in trials)
            self._study.sampler = self._sample(len(trials), self._machine if others else "")
            trial = self._study.ask(self._distributions)
        self._ours.add(trial.number)
        return trial

    def _tell(self, trial: Any, judgement: Judgement) -> None:
        has_run = judgement.values is not None
        trial.set_constraint("runs", float(not has_run and not judgement.broken))
        for name in (MEMORY, *(constraint.name for constraint in self._search.goal.constraints)):
            trial.set_constraint(name, judgement.excess.get(name, 0.0))
        with _quiet(self._optuna):
            if has_run and (judgement.is_feasible or self._sampler.takes_constraints):
                self._study.tell(trial, judgement.values)
            else:
                self._study.tell(trial, state=self._optuna.trial.TrialState.PRUNED)

    def _sample(self, proposal: int, salt: str = "") -> Any:
        """A sampler for the proposal of that number."""
        seed = self._search.options.seed
        if not self._sampler.keeps_seed:
            seed = int.from_bytes(hashlib.blake2b(f"{seed} {proposal} {salt}".encode(), digest_size=4).digest(), "big")
        try:
            if self._sampler.needs:
                __import__(self._sampler.needs)
            return getattr(self._optuna.samplers, self._sampler.name)(seed=seed % (1 << 32), **self._sampler.arguments)
        except ImportError:
            name = self._search.options.sampler
            raise InputError(f"search: sampler is {name!r}, which needs {self._sampler.needs}: pip install {self._sampler.needs}") from None

    def _next_of_shuffle(self) -> int | None:
        count, seed = self._plan.points.count, f"{self._search.options.seed}".encode()
        end = min(count, self._walked + _LONGEST_WALK)
        while self._walked < end:
            number = shuffled(self._walked, count, seed)
            self._walked += 1
            is_new = number not in self._reported and number not in self._waiting
            if is_new and self._plan.point(number).skipped_by is None:
                return number
        return None

    def _distribution(self, group: AxisGroup) -> Any:
        """The values of axes that go in step, as Optuna has them: numbers, or positions in a list."""
        axis, distributions = group.axes[0], self._optuna.distributions
        if axis.span is not None:
            of = distributions.IntDistribution if axis.span.whole else distributions.FloatDistribution
            return of(axis.span.low, axis.span.high, log=axis.span.logarithmic)
        if _is_ordered(axis.values):
            return distributions.IntDistribution(0, group.count - 1)
        return distributions.CategoricalDistribution(range(group.count))

    def _number(self, parameters: Mapping[str, Any]) -> int:
        positions = []
        for group in self._groups:
            value, span = parameters[group.axes[0].name], group.axes[0].span
            positions.append(value if span is None else span.nearest(value))
        return self._plan.points.grid.number(positions)

    def _parameters(self, number: int) -> dict[str, Any]:
        result = {}
        for group, position in zip(self._groups, self._plan.points.grid.positions(number), strict=True):
            span = group.axes[0].span
            result[group.axes[0].name] = position if span is None else span.step(position)
        return result


_SKIP = Judgement(None, {})


def _is_ordered(values: Sequence[Any]) -> bool:
    """Whether values are numbers that rise or fall."""
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return False
    return list(values) in (sorted(set(values)), sorted(set(values), reverse=True))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError("a search with samplers needs Optuna: pip install 'astra-sim-sweep[search]'") from None
    return optuna


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Suppress Optuna's log meanwhile."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _name(search: SearchPlan) -> str:
    """The name of the study: that of another search, on the same storage, is another."""
    goal = search.goal
    hashed = hashlib.blake2b(search.plan.content(), digest_size=8)
    hashed.update(repr([(each.text, each.maximize) for each in goal.objectives]).encode())
    hashed.update(repr([(each.name, each.condition.text) for each in goal.constraints]).encode())
    return f"astra-{hashed.hexdigest()}"


def _study(optuna: Any, storage: str, name: str, directions: Sequence[str]) -> Any:
    """The study of a name in a storage: a URL of a database, or a file."""
    try:
        if "://" in storage:
            opened = optuna.storages.RDBStorage(storage)
        else:
            os.makedirs(os.path.dirname(storage) or ".", exist_ok=True)
            _check_study_file(storage)
            opened = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(storage))
        return optuna.create_study(storage=opened, study_name=name, directions=directions, load_if_exists=True)
    except OSError as error:
        raise RunError(f"the study of Optuna, {storage}: {error.strerror or error}") from None
    except AstraError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"the study of Optuna, {storage}: {type(error).__name__}: {reason}; expected a file of a study, or a URL such as"
            " mysql://user@host/database"
        ) from None


_LONGEST_ENTRY = 1 << 20


def _check_study_file(path: str) -> None:
    """Raise InputError if a file holds something else than a study, which Optuna would find out after it has appended to it.

    A study is a journal of Optuna: each line is a JSON object with the number of an operation and the worker that has done it.
    """
    if not os.path.lexists(path):
        return
    if os.path.isfile(path):
        with open(path, "rb") as file:
            line = file.readline(_LONGEST_ENTRY)
        if not line:
            return
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if isinstance(entry, dict) and {"op_code", "worker_id"} <= entry.keys():
            return
    raise InputError(f"search: storage is {path!r}, which is not a study of Optuna; expected one, or the name of a new file")
