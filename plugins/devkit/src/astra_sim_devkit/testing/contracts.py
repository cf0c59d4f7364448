"""Test classes for plugin authors: the contract of each kind of component. Subclass one, name your component, and pytest runs its tests.

class TestMine(CollectiveContract):
    name = "mine"                     # as offered through the hook; the package must be installed
    options = {"window": 2}           # if it has options

`astra plugins check` runs the same tests with the defaults of the options and with the examples that a provider offers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

from astra_sim.commands import shared_plugins
from astra_sim.compute import Compute, Work
from astra_sim.engines import EngineType, engine_of
from astra_sim.errors import InputError, PluginError
from astra_sim.experiments import dimensions_of, network_of
from astra_sim.memory import Memory
from astra_sim.models import ModelDescription
from astra_sim.network import EventNetwork, LinkLoad, RouteDelayNetwork
from astra_sim.options import describe_options
from astra_sim.platform import Dimension, Platform, Preset
from astra_sim.providers import options_of

from astra_sim_devkit.testing.accounts import check_account
from astra_sim_devkit.testing.bench import PLATFORM, bench_context, joined_platform
from astra_sim_devkit.testing.collectives import RANKS, check_collective
from astra_sim_devkit.testing.deliveries import batches, check_delays, check_lone_messages, check_prices, check_runs_are_alike, deliver
from astra_sim_devkit.testing.engine_columns import check_columns
from astra_sim_devkit.testing.engine_graphs import differing
from astra_sim_devkit.testing.models import SERIES, check_capacity, check_compute, check_memory, check_ports
from astra_sim_devkit.testing.orders import check_dimension_order, check_queue_order
from astra_sim_devkit.testing.placements import check_placement
from astra_sim_devkit.testing.plans import check_system
from astra_sim_devkit.testing.programs import check_alike, check_training_loop, check_workload
from astra_sim_devkit.testing.reports import check_report
from astra_sim_devkit.testing.requirement import require, require_figures
from astra_sim_devkit.testing.serving_policies import check_policy
from astra_sim_devkit.testing.topologies import (
    check_dimensions,
    check_hops,
    check_links,
    check_made_alike,
    check_queue_directions,
    check_symmetry,
)
from astra_sim_devkit.testing.variations import check_variation


class OptionsRefused(InputError):
    """A component cannot be made with the options of the test; the message gives the reason."""


class ComponentContract:
    """The contract of every component: it is found, loads, and documents itself."""

    kind: ClassVar[str]
    name: str
    options: Mapping[str, Any] = {}

    @cached_property
    def provider(self) -> Any:
        """The provider."""
        return shared_plugins().get(self.kind, self.name)

    @cached_property
    def given(self) -> Any:
        """The options of the test, as the factory gets them; None if it has none."""
        return self._unless_refused(lambda: options_of(self.provider, self.options, self.name))

    def make(self, *context: Any) -> Any:
        """A component with the options of the test, given the context of its kind. Raises OptionsRefused."""
        return self._unless_refused(lambda: self.provider.create(self.given, *context))

    def _unless_refused(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except PluginError:
            raise
        except InputError as error:
            raise OptionsRefused(str(error)) from None

    def test_it_documents_itself(self) -> None:
        """Name, summary and help texts are there."""
        require(self.provider.summary, "it has no summary")
        for option in describe_options(self.provider.load_options()):
            require(option.help, f"option {option.name} has no help text (make it with astra_sim.option)")


class WorkloadContract(ComponentContract):
    """A workload makes a graph that can be run to its end, and the same one of the same options. It gets a platform of 4 x 2 NPUs."""

    kind = "workload"
    platform: ClassVar[Platform] = PLATFORM

    def test_its_graph_runs_to_the_end(self) -> None:
        """Nothing waits for ever, and every send has a receive."""
        graph = check_workload(self.make(bench_context(self.platform)), self.platform)
        check_alike(graph, self.make(bench_context(self.platform)))


class TrainingLoopContract(ComponentContract):
    """A training loop writes operations of layers for every iteration, which can be run to their end."""

    kind = "training_loop"
    platform: ClassVar[Platform] = PLATFORM

    def test_its_program_runs_to_the_end(self) -> None:
        """It is run on four layers, of which the first is an embedding."""
        arguments = () if self.given is None else (self.given,)
        check_training_loop(lambda program: self.provider.create(None, program, *arguments), bench_context(self.platform))


class SystemContract(ComponentContract):
    """A system layer plans chunks and phases that do the collective, with all of its bytes, in queues that it has."""

    kind = "system"
    platform: ClassVar[Platform] = PLATFORM

    def test_its_plans_do_the_collective(self) -> None:
        """Pieces of data pass through the phases of every chunk, and the chunks run to their end."""
        check_system(self.make(bench_context(self.platform)), self.platform)


_RANKS_OF_PLATFORMS = (2, 3, 4, 8)
"""For which a collective is tried that is made for a platform, which may take its time."""


class CollectiveContract(ComponentContract):
    """A collective moves every piece to its destination in messages of its size, on all numbers of `ranks` that it does not refuse.

    Its schedules depend on nothing but the request, and are not changed after it has given them.
    """

    kind = "collective"
    ranks: ClassVar[tuple[int, ...]] = RANKS

    def test_pieces_end_where_they_should(self) -> None:
        """Real pieces are moved along every schedule."""
        factory = self.provider.load_factory()
        scales = getattr(self.provider, "scales", True)
        arguments = () if self.given is None else (self.given,)
        if getattr(self.provider, "takes_platform", False):
            ranks = tuple(n for n in self.ranks if n in _RANKS_OF_PLATFORMS)
            check_collective(lambda request: factory(request, *arguments, joined_platform(request.ranks)), ranks, scales)
        else:
            check_collective(lambda request: factory(request, *arguments), self.ranks, scales)


class SchedulerContract(ComponentContract):
    """An order of queues gives places that are there; an order of dimensions gives chunks that pass through each dimension once."""

    kind = "scheduler"
    platform: ClassVar[Platform] = PLATFORM

    def test_its_answers_can_be(self) -> None:
        """They depend only on their arguments."""
        if self.provider.orders == "queue":
            check_queue_order(self.make())
        else:
            check_dimension_order(self.make, self.platform)


class TopologyContract(ComponentContract):
    """A topology counts hops sensibly, and is as symmetric as it claims."""

    kind = "platform"

    @cached_property
    def dimensions(self) -> Sequence[Dimension]:
        """The dimensions under test."""
        return self._new_dimensions()

    def _new_dimensions(self) -> Sequence[Dimension]:
        result = self.make()
        return check_dimensions(dimensions_of(result, self.name, shared_plugins()) if isinstance(result, Preset) else result)

    def test_it_is_a_topology(self) -> None:
        """Every dimension has the attributes that the kernel needs."""
        for dimension in self.dimensions:
            check_links(dimension)
            check_queue_directions(dimension)

    def test_hops_are_positive(self) -> None:
        """Hops count from 1. There may be more of them one way than the other."""
        for dimension in self.dimensions:
            check_hops(dimension)

    def test_it_is_as_symmetric_as_it_says(self) -> None:
        """Peers declared symmetric are as far away from everywhere."""
        for dimension in self.dimensions:
            check_symmetry(dimension)

    def test_it_is_made_alike(self) -> None:
        """The same options give the same dimensions."""
        check_made_alike(self.dimensions, self._new_dimensions())


class NetworkContract(ComponentContract):
    """A network delivers every message once, in order of time, and not before it was sent. Larger messages take no less time."""

    kind = "network"
    platform: ClassVar[Platform] = PLATFORM

    @cached_property
    def network(self) -> RouteDelayNetwork | EventNetwork:
        """The network under test."""
        others = [partial(network_of, shared_plugins(), self.platform, self.name)] if self.provider.takes_networks else []
        network = self.make(self.platform, *others)
        require(isinstance(network, (RouteDelayNetwork, EventNetwork)), f"it made {network!r}, which is not a network")
        return network  # type: ignore[no-any-return]

    def test_every_message_arrives_once(self) -> None:
        """Every injected message is delivered."""
        if isinstance(self.network, EventNetwork):
            start = self.network.begin()
            require(type(start) is int and start >= 0, f"begin returned {start!r}; expected picoseconds of at least 0")
            deliver(self.network, batches(self.network.platform))

    def test_larger_messages_take_no_less_time(self) -> None:
        """Delays grow with size, and so do the times of messages that have the network for themselves."""
        if isinstance(self.network, RouteDelayNetwork):
            check_delays(self.network)
        else:
            check_lone_messages(self.network)

    def test_larger_collectives_take_no_less_time(self) -> None:
        """Whole collectives that it prices take longer if they are larger."""
        check_prices(self.network)

    def test_runs_are_alike(self) -> None:
        """A second run forgets the first, and the function table gives the same answers."""
        if isinstance(self.network, EventNetwork):
            check_runs_are_alike(self.network)

    def test_figures_have_names(self) -> None:
        """Statistics and reports are tables by name, and links have shares of time in which they were busy."""
        require_figures(self.network.statistics(), "statistics returned")
        reports = self.network.reports() if isinstance(self.network, EventNetwork) else {}
        right = isinstance(reports, dict) and all(isinstance(text, str) for item in reports.items() for text in item)
        require(right, f"reports returned {reports!r}; expected texts by name")
        links = list(self.network.links()) if isinstance(self.network, EventNetwork) else []
        right = all(isinstance(link, LinkLoad) and link.bytes >= 0 and 0 <= link.utilisation <= 1 for link in links)
        require(right, f"links returned {links!r}; expected a LinkLoad of each, with a utilisation from 0 to 1")


class ComputeContract(ComponentContract):
    """A compute model gives times that are not negative, and no less for more work; or it names the missing input."""

    kind = "compute"
    work: ClassVar[tuple[Work, ...]] = ()
    """Growing work of your own, if the model knows the time of no other."""

    def test_more_work_takes_no_less_time(self) -> None:
        """Times grow with work."""
        model = self.make()
        require(isinstance(model, Compute), f"it made {model!r}, which is not a Compute")
        check_compute(model, (self.work,) if self.work else SERIES)

    def test_figures_have_names(self) -> None:
        """Statistics are figures by name."""
        require_figures(self.make().statistics(), "statistics returned")


class MemoryContract(ComponentContract):
    """A memory model gives times that are not negative, and no less for more bytes."""

    kind = "memory"

    @cached_property
    def model(self) -> Memory:
        """The model under test."""
        model = self.make()
        require(isinstance(model, Memory), f"it made {model!r}, which is not a Memory")
        return model  # type: ignore[no-any-return]

    def test_more_bytes_take_no_less_time(self) -> None:
        """Times grow with bytes."""
        check_memory(self.model)

    def test_ports_of_remote_memory_are_numbers(self) -> None:
        """An NPU has a port, always the same, or none."""
        check_ports(self.model)

    def test_its_capacity_is_a_number(self) -> None:
        """Or it is not limited."""
        check_capacity(self.model)


class ReportContract(ComponentContract):
    """A report writes files about one run or several, with layers and without, through the folder that it is given."""

    kind = "report"

    def test_it_writes_files(self) -> None:
        """About one run, and about two, with every choice of series in time."""
        check_report(self.make)


class EngineContract(ComponentContract):
    """An engine gives the results of the readable one of the kernel, in its counts and in everything that its `record` holds of a run."""

    kind = "engine"

    @cached_property
    def engine(self) -> EngineType:
        """The engine."""
        return engine_of(self.provider)

    def test_it_is_one_object(self) -> None:
        """Phase costs are cached by it."""
        require(self.provider.load_factory() is self.engine, "its factory is another object each time")

    def test_it_gives_the_results_of_the_readable_one(self) -> None:
        """On random programs, queues, schedules and networks."""
        seeds = differing(self.engine, 0, 200)
        require(not seeds, f"it differs from the engine in Python on the graphs of seeds {seeds} (astra_sim_devkit.testing.engine_graphs)")

    def test_it_counts_columns(self) -> None:
        """Functions that need no run: times of tasks, uses of phase steps, repeated columns."""
        check_columns(self.engine)


class ModelContract(ComponentContract):
    """A model is a description, the same one each time."""

    kind = "model"

    def test_it_is_a_description(self) -> None:
        """Its dimensions do not contradict each other, which `ModelDescription` checks."""
        first, again = self.make(), self.make()
        require(isinstance(first, ModelDescription), f"it made {first!r}, which is not a ModelDescription")
        require(first == again, f"it made {first!r}, and then {again!r}")


class ServingPolicyContract(ComponentContract):
    """A policy of a serving instance plans the waiting and running requests, within the limits, until every one has ended."""

    kind = "serving_policy"

    def test_every_request_ends(self) -> None:
        """On an instance whose cache has room for all."""
        check_policy(self.make)


class VariationContract(ComponentContract):
    """A variation gives times of operations, and the same again of the same ones in another order."""

    kind = "variation"

    def test_it_says_the_same_again(self) -> None:
        """Of operations of several ranks and passes."""
        check_variation(self.make)


class PlacementContract(ComponentContract):
    """A placement chooses free NPUs, as many as it is asked for, and the same ones again."""

    kind = "placement"

    def test_it_chooses_free_npus(self) -> None:
        """Of a whole cluster, and of some that are left."""
        check_placement(self.make)


class AccountContract(ComponentContract):
    """An account gives the figures of a run, ready for JSON, and leaves the result as it is."""

    kind = "account"

    def test_it_gives_figures(self) -> None:
        """Of a run with layers, whose times of all NPUs are kept."""
        check_account(self.make)


CONTRACTS: dict[str, type[ComponentContract]] = {
    contract.kind: contract
    for contract in (
        WorkloadContract,
        TrainingLoopContract,
        SystemContract,
        CollectiveContract,
        SchedulerContract,
        TopologyContract,
        NetworkContract,
        ComputeContract,
        MemoryContract,
        ReportContract,
        EngineContract,
        ModelContract,
        ServingPolicyContract,
        VariationContract,
        PlacementContract,
        AccountContract,
    )
}
"""The contract of each kind."""


def run_contract(kind: str, provider: Any, options: Mapping[str, Any]) -> None:
    """Run the contract of a component with some options. Raises PluginError that describes the violation."""
    contract = CONTRACTS[kind]()
    contract.name, contract.options = provider.name, options
    contract.provider = provider
    for name in _tests_of(type(contract)):
        try:
            getattr(contract, name)()
            getattr(contract, "platform", PLATFORM).check_unchanged()
        except AssertionError as error:
            raise PluginError(str(error)) from None


def _tests_of(contract: type) -> list[str]:
    """The names of the tests of a contract, those of its base class first."""
    return list(dict.fromkeys(name for cls in reversed(contract.__mro__) for name in vars(cls) if name.startswith("test_")))
