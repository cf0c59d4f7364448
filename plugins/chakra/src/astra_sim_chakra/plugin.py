"""Hooks."""

from __future__ import annotations

from astra_sim import CollectiveProvider, FileFormat, Provider, hookimpl

_CUSTOM = "astra_sim_chakra.custom_collective"


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider(
            "convert",
            "Convert workloads and traces: text of ASTRA-sim 1.0, TOML, Chakra, JSON.",
            "astra_sim_chakra.convert:convert",
        ),
        *(
            Provider(f"trace {name}", summary, f"astra_sim_chakra.doctor.commands:{name}_command")
            for name, summary in (
                ("check", "Find errors in traces, and their effects."),
                ("repair", "Repair unambiguous errors in traces."),
                ("scale", "Make the traces of more ranks, where ranks are alike."),
                ("stats", "Print the content of traces, and lower bounds of a run."),
            )
        ),
        Provider(
            "trace link", "Join an execution trace of PyTorch and a trace of Kineto.", "astra_sim_chakra.pytorch.commands:link_command"
        ),
    ]


@hookimpl
def astra_collectives() -> list[CollectiveProvider]:
    factory, options = f"{_CUSTOM}:custom_collective", f"{_CUSTOM}:CustomCollectiveOptions"
    examples = "astra_sim_chakra.examples:collective"
    return [
        CollectiveProvider(name, summary, factory, options, whole_platform=whole, scales=False, carries_delays=True, examples=examples)
        for name, whole, summary in (
            ("chakra", False, "From Chakra traces, one for each rank; messages keep the sizes of the traces"),
            ("one_chakra", True, "The same over the whole platform, whatever its dimensions are"),
        )
    ]


@hookimpl
def astra_workloads() -> list[Provider]:
    return [
        Provider(
            "chakra",
            "Chakra execution traces, one for each rank",
            "astra_sim_chakra.workload:chakra",
            "astra_sim_chakra.workload:ChakraOptions",
            examples="astra_sim_chakra.examples:workload",
        )
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    of_chakra, of_json = (
        "Chakra execution traces PREFIX.0.et, PREFIX.1.et, ..., by their prefix",
        "The same as JSON, PREFIX.0.json, PREFIX.1.json, ..., of astra or of chakra_jsonizer, by their prefix",
    )
    return [
        FileFormat(
            name,
            summary,
            kinds=("workload",),
            recognises="astra_sim_chakra.workload:recognises",
            read="astra_sim_chakra.workload:read_prefix",
            first_file=f".0{extension}",
        )
        for name, extension, summary in (
            ("chakra", ".et", of_chakra),
            ("chakra_json", ".json", of_json),
            ("chakra_gzip", ".et.gz", "Gzipped Chakra execution traces PREFIX.0.et.gz, PREFIX.1.et.gz, ..., by their prefix"),
            ("chakra_json_gzip", ".json.gz", "The same as gzipped JSON, PREFIX.0.json.gz, PREFIX.1.json.gz, ..., by their prefix"),
        )
    ]
