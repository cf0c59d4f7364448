"""What implements the components of `astra_sim_sampler`."""

import attrs
import click
from astra_sim import InputError, option
from astra_sim.compute import Compute
from astra_sim.engines import ReferenceEngine
from astra_sim.graph import Pass
from astra_sim.layers import LayeredProgram, LayerOptions, PassOptions
from astra_sim.memory import Memory
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Group
from astra_sim.schedule import Collective, Request, Schedule, exchange, shift
from astra_sim.system import ChunkPlan, DimensionOrder, PhasePlan, QueuePlan, Rule, RuleOrder, System, SystemSession

# -- A workload, a training loop -----------------------------------------------------------------------------------------

# A workload makes an `ExecutionGraph`: the operations of the NPUs. A training loop writes those of layers into
# the program that the workload `layers` gives it.


@attrs.frozen
class HalvesOptions:
    bytes: int = option(1 << 20, minimum=2, help="bytes of both collectives together")


def halves(options, context):
    exchange = PassOptions(collective="all_reduce", collective_bytes=options.bytes // 2)
    layers = [LayerOptions(name=name, weight_gradient=exchange) for name in ("first", "second")]
    program = LayeredProgram(layers, context, "halves")
    backward_only(program)
    return program.build()


def backward_only(program):
    for _ in program.iterations():
        for layer in reversed(range(len(program.layers))):
            program.compute(layer, Pass.WEIGHT_GRADIENT)
            program.communicate(layer, Pass.WEIGHT_GRADIENT, program.all_dimensions())
    program.wait(0, Pass.WEIGHT_GRADIENT)


# -- A system layer ------------------------------------------------------------------------------------------------------

# `issue` plans a collective when it is issued: chunks, and for each its phases with schedule and queue.


def whole(context):
    return Whole()


class Whole(System):
    def session(self, dimensions):
        return WholeSession(dimensions)


class WholeSession(SystemSession):
    def __init__(self, dimensions):
        self.dimensions = dimensions
        self.queues = [QueuePlan(1, lambda jobs, started, job: len(jobs)) for _ in dimensions]

    def issue(self, operation, now_ps):
        stages = [(index, self.dimensions[index]) for index in operation.dimensions]
        if operation.group is not None:  # a communicator group in place of dimensions
            stages = [(0, Group(operation.group))]
        size, phases = operation.bytes, []
        for index, logical in stages:
            if logical.size == 1:
                continue
            schedule = pairs(Request(operation.collective, logical.size, size))
            phases.append(PhasePlan(index, logical, operation.collective, size, schedule, index))
            size = schedule.output_bytes
        return [ChunkPlan(None, tuple(phases))] if phases else []


# -- Collectives: whole_platform, variants -------------------------------------------------------------------------------

# An algorithm makes the schedule of a phase (how it is read). With `whole_platform=True` it runs over all NPUs,
# whatever the dimensions are. With `variants=2` the phases of a dimension take two schedules in turn:
# `request.instance` is 0 or 1.


def pairs(request, way=1):
    n, block = request.ranks, request.bytes // request.ranks
    scatter = [exchange(shift(way * k), block, reduce=True, pieces=[way * k % n]) for k in range(1, n)]
    gather = [exchange(shift(way * k), block, pieces=[0]) for k in range(1, n)]
    match request.collective:
        case Collective.ALL_REDUCE:
            return Schedule.shared(request, scatter + gather)
        case Collective.REDUCE_SCATTER:
            return Schedule.shared(request, scatter)
        case Collective.ALL_GATHER:
            return Schedule.shared(request, [exchange(shift(way * k), request.bytes, pieces=[0]) for k in range(1, n)])
    raise request.unsupported("pairs", "it moves no all-to-all")


def both_ways(request):
    return pairs(request, -1 if request.instance else 1)


# -- Schedulers: orders="queue", orders="dimensions" ---------------------------------------------------------------------

# One order gives the place of a chunk in a queue, the other the order of its dimensions.


def largest_first():
    return RuleOrder(otherwise=Rule(key=lambda kind, size, remaining: -size))


class Descending(DimensionOrder):
    has_memory = False

    def __init__(self, platform):
        pass

    def chunk(self, collective, rest, size, dimensions, usable):
        return min(rest, size), list(reversed(range(len(dimensions))))


# -- A topology ----------------------------------------------------------------------------------------------------------

# It gives hops for delay formulas, and links for networks with contention. A factory returns a list of
# dimensions.


@attrs.frozen
class LineOptions:
    size: int = option(4, minimum=2, help="NPUs")
    link_bandwidth_gb_per_s: float = option(25.0, above=0, help="bandwidth of a link one way", unit="10^9 bytes/s")
    link_latency_ns: float = option(500.0, minimum=0, help="latency of a link", unit="ns")


@attrs.frozen
class Line:
    size: int
    bandwidth: float
    latency_ns: float
    name: str = "line"

    def hops(self, source, destination):
        return abs(source - destination)

    def is_symmetric(self, peer):
        return False

    def links_per_message(self):
        return 1

    def links_per_npu(self):
        return 2

    def links(self):
        pairs = [(place, place + 1) for place in range(self.size - 1)]
        return [(*way, self.bandwidth, self.latency_ns) for pair in pairs for way in (pair, pair[::-1])]


def line(options):
    topology = Line(options.size, options.link_bandwidth_gb_per_s, options.link_latency_ns)
    return [Dimension(topology, options.size, 2, options.link_bandwidth_gb_per_s, options.link_latency_ns)]


# -- A network in Python -------------------------------------------------------------------------------------------------

# Without contention it returns the delay of a message. If messages wait for each other it is an `EventNetwork`,
# best in C or C++ (function table).


@attrs.frozen
class FixedOptions:
    delay_ns: int = option(1000, minimum=1, help="time of every message", unit="ns")


class Fixed(RouteDelayNetwork):
    def __init__(self, options, platform):
        super().__init__(platform)
        self.options = options

    def route_delay(self, dimension, hops, size):
        return 1000 * self.options.delay_ns  # picoseconds


# -- A compute model, a memory model -------------------------------------------------------------------------------------


class Half(Compute):
    def duration_ns(self, work):
        return (work.recorded_ns or 0.0) / 2


class Flat(Memory):
    def access_ps(self, size, write):
        return size // 100


# -- A file format, a report, a command ----------------------------------------------------------------------------------

# A format turns a text into sections of an experiment, a report writes files about results, a command is a
# click command.


def recognises(text):
    return text.startswith(("all_reduce ", "all_gather "))


def read(text, path):
    words = text.split()
    if len(words) != 2 or not words[1].isdecimal():
        raise InputError(f"{path}: {text.strip()!r}; expected an operation and a number of bytes")
    return {"workload": {"plugin": "collective", "collective": words[0], "bytes": int(words[1])}}


def write_times(results, folder):
    folder.write("times.txt", [f"{result.run_name} {result.finish_ns} ns\n" for result in results])


@click.command()
@click.argument("name")
def hello(name):
    """Print a greeting."""
    click.echo(f"Hello, {name}")


# -- An engine -----------------------------------------------------------------------------------------------------------

# An engine executes tasks, queues and messages. It runs if `--engine` names it, with the results of the
# kernel's engine. `astra_sim.engines` is provisional: a package with an engine requires exactly the version of
# `astra-sim-core` for which it was written.


class Counting(ReferenceEngine):
    def run(self, events=None):
        left = super().run(events)
        if not left and self.messages:
            click.echo(f"{self.events} events", err=True)
        return left


# -- An explainer --------------------------------------------------------------------------------------------------------

# An explainer gets a run with its critical path, and explains its time: here the share of each kind.
# `astra_sim.records` is provisional, too.


class Shares:
    def __init__(self, run):
        self.percent = {}
        for segment in run.path.segments:
            share = 100 * segment.ps / run.record.finish_ps
            self.percent[str(segment.kind)] = self.percent.get(str(segment.kind), 0) + share

    def to_dict(self):
        return {"percent": self.percent}

    def show(self, screen):
        for kind, percent in self.percent.items():
            screen.text(f"{kind}: {percent:.1f} %")
