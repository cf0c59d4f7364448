"""A component for every hook."""

from astra_sim import CollectiveProvider, FileFormat, Provider, SchedulerProvider, hookimpl

PARTS = "sampler_parts"


@hookimpl
def astra_workloads():
    return [Provider("halves", "A collective of half the bytes, twice", f"{PARTS}:halves", f"{PARTS}:HalvesOptions")]


@hookimpl
def astra_training_loops():
    return [Provider("backward_only", "Weight gradients, last layer first, and their collectives", f"{PARTS}:backward_only")]


@hookimpl
def astra_systems():
    return [Provider("whole", "One chunk through all dimensions, one phase each", f"{PARTS}:whole")]


@hookimpl
def astra_collectives():
    return [
        CollectiveProvider("pairs", "One other rank after another", f"{PARTS}:pairs", pure=True),
        CollectiveProvider("pairs_of_all", "The same over all NPUs at once", f"{PARTS}:pairs", whole_platform=True, pure=True),
        CollectiveProvider("both_ways", "Pairs upwards and downwards in turn", f"{PARTS}:both_ways", variants=2, pure=True),
    ]


@hookimpl
def astra_schedulers():
    return [
        SchedulerProvider("largest_first", "Largest phase first", f"{PARTS}:largest_first", orders="queue"),
        SchedulerProvider("descending", "Last dimension first", f"{PARTS}:Descending", orders="dimensions"),
    ]


@hookimpl
def astra_platforms():
    return [Provider("line", "NPUs in a line", f"{PARTS}:line", f"{PARTS}:LineOptions")]


@hookimpl
def astra_networks():
    return [Provider("fixed", "Every message takes the same time", f"{PARTS}:Fixed", f"{PARTS}:FixedOptions")]


@hookimpl
def astra_computes():
    return [Provider("half", "Half of the recorded time", f"{PARTS}:Half")]


@hookimpl
def astra_memories():
    return [Provider("flat", "So many bytes a ns", f"{PARTS}:Flat")]


@hookimpl
def astra_formats():
    return [FileFormat("one-line", "A collective as 'OPERATION BYTES'", ("workload",), f"{PARTS}:recognises", f"{PARTS}:read")]


@hookimpl
def astra_reports():
    return [Provider("times", "When each run has finished", f"{PARTS}:write_times")]


@hookimpl
def astra_commands():
    return [Provider("hello", "Print what a platform is", f"{PARTS}:hello")]


@hookimpl
def astra_explainers():
    return [Provider("shares", "What share of the time each kind takes", f"{PARTS}:Shares")]


@hookimpl
def astra_engines():
    return [Provider("counting", "The engine in Python, which prints how many events there were", f"{PARTS}:Counting")]
