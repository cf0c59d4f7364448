"""Names that are not known."""

from __future__ import annotations

from errors.inputs import FILES, Astra, Words, cases, refused


@cases(
    {
        "workload": (["--workload", "plugin:colective"], "workload", "'colective'", "collective"),
        "system": (["--system", "plugin:astra9"], "system", "'astra9'", ("astra1", "astra2")),
        "platform": (["--platform", "plugin:rong?size=4"], "platform", "'rong'", "ring"),
        "network": (["--platform", "n.json", "--network", "plugin:analitical"], "network", "'analitical'", "analytical"),
        "network without a platform": (["--network", "plugin:analitical"], "'analitical'"),
        "compute": (["--compute", "plugin:rofline"], "compute", "'rofline'", "roofline"),
        "memory": (["--memory", "plugin:locl"], "memory", "'locl'", "local"),
        "training loop": (["--set", "workload.loop=dat"], "w.txt", "training loop", "'dat'", "data"),
        "collective": (["--set", "system.all_reduce=rng"], "s.txt", "collective", "'rng'", "ring"),
        "order of queues": (["--set", "system.intra_dimension_scheduling=fifi"], "s.txt", "scheduler", "'fifi'", "fifo"),
        "order of dimensions": (["--set", "system.inter_dimension_scheduling=ascnding"], "scheduler", "'ascnding'", "ascending"),
        "topology": (["--set", "platform.dimensions.0.topology=rung"], "n.json", "dimension 0", "'rung'", "ring"),
        "option of a component": (["--set", "system.split=8"], "s.txt", "'split'", "splits"),
        "option of the network": (["--set", "network.roundin=x"], "n.json", "'roundin'", "rounding"),
        "option of an algorithm": (["--set", "system.all_reduce=direct?windw=2"], "s.txt", "'windw'", "window"),
        "option of a component without options": (["--compute", "plugin:recorded?x=1"], "recorded", "'x'", "no options"),
        "choice": (["--set", "system.scheduling_policy=lilo"], "s.txt", "scheduling_policy", "'lilo'", "'lifo'"),
        "collective of a layer": (["--set", "workload.layers.0.forward.collective=all_reduc"], "w.txt", "'all_reduc'", "'all_reduce'"),
        "flag": (["--rendezvou"], "--rendezvou", "--rendezvous"),
    }
)
def test_an_unknown_name_is_answered_with_those_that_are_known(astra: Astra, given: list[str], words: Words) -> None:
    start = ("--workload", "w.txt", "--system", "s.txt") if "--network" in given else FILES
    refused(astra(*start, *given, "--json"), *words)


@cases(
    {
        "an option that is required": (["--workload", "plugin:collective?byte=8"], "'byte'", "bytes"),
        "a key of a dimension": (["--platform", "plugin:ring?sise=4"], "'sise'", "size"),
    }
)
def test_a_misspelt_option_is_named_even_where_the_right_one_is_required(astra: Astra, given: list[str], words: Words) -> None:
    refused(astra(*FILES, *given), *words)


@cases(
    {
        "a command": (["plugin"], "'plugin'", "plugins"),
        "a command of plugins": (["plugins", "lst"], "'lst'", "list"),
        "a component to show": (["plugins", "show", "nosuch"], "'nosuch'", "known"),
        "a component to show, nearly": (["plugins", "show", "rign"], "'rign'", "'ring'"),
        "a kind of component to show": (["plugins", "show", "colective:ring"], "'colective:ring'"),
        "no component to show": (["plugins", "show"], "NAME"),
        "a component to check": (["plugins", "check", "nosuch"], "'nosuch'", "known"),
    }
)
def test_an_unknown_command_or_component_is_answered_with_those_that_are_known(astra: Astra, given: list[str], words: Words) -> None:
    refused(astra(*given), *words)


@cases(
    {
        "a queue by the order of dimensions": ("intra_dimension_scheduling=round_robin", "intra_dimension_scheduling", "round_robin"),
        "a queue by an order that asks for the platform": (
            "intra_dimension_scheduling=ascending",
            "intra_dimension_scheduling",
            "ascending",
        ),
        "dimensions by the order of a queue": ("inter_dimension_scheduling=fifo", "inter_dimension_scheduling", "fifo"),
    }
)
def test_a_scheduler_of_the_other_kind_is_refused(astra: Astra, given: str, words: Words) -> None:
    refused(astra(*FILES, "--set", f"system.{given}"), "s.txt", *words)
