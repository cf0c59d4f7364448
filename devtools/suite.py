"""Which tests belong to which package, so that one package can be tested alone."""

from __future__ import annotations

from collections.abc import Sequence

from devtools.workspace import ROOT

TESTS = ROOT / "tests"
TAKE_A_WORD = ("-k", "-m", "-p", "-n", "-o", "-c", "--dist")
OF_PACKAGES = {
    "core": (
        "audit broken_tables cache_folder cache_inputs caches changed_files changed_links chosen_routes columns command_options "
        "communicators composites damaged_inputs destination_order public_api engine_choice fabric fabric_routes fabric_twin "
        "files repeated_layers foreign_keys function_table hookspecs idle_npus interrupts layout limits lowered_schedules machine_parts "
        "messages named_functions network_start networks npu_tables output_widths overheads own_inputs pair_delays "
        "parts_of_dimensions pickling plugin_files plugin_names priced_collectives processors progress properties "
        "provenance random random_checks random_experiments rank_programs cached_formats reports ring_directions routes "
        "run_options series show slow_npus start symmetry symmetry_choice toml_text topology traffic_classes unit_times "
        "unread_streams unreceived_messages using whole_platform workload_figures"
    ),
    "engine": "engine engine_twins engines_agree queue_orders shared_bus",
    "systems": "admission algorithm_names astra2_files astra2_random auto custom_collectives node_algorithms system_rules",
    "collectives": "collectives load_store msccl mscclpp",
    "chakra": (
        "chakra chakra_collective chakra_convert chakra_messages data_dependencies issue_order mlcommons_text recorded_times "
        "simai_text trace_check trace_json trace_link trace_scale"
    ),
    "compat": "compat compat_log log_parsers",
    "network_analytical": "collective_share collective_validation congestion congestion_files nccl nccl_refit",
    "network_auto": "network_auto",
    "network_flow": "flow flow_sharing",
    "network_packet": (
        "packet packet_begin packet_clocks packet_command packet_serialized_credits packet_deadlock packet_quotient packet_link_loads "
        "packet_speculation packet_table packet_traffic packet_vnet_choice packet_windows"
    ),
    "network_roce": "ns3_files pfc_classes roce roce_repetition",
    "network_ns3": "ns3",
    "platforms": "fabrics htsim_topology infragraph nccl_topology platform_presets",
    "flows": "collective_command flows",
    "synthesis": "synthesis",
    "devkit": "broken_components broken_kinds completion contracts devkit_absent doctor server",
    "explain": "compare compare_memory explain_absent explain_command explanation explanation_ranges rerun",
    "report": "plot plot_flows plot_goodput plot_serving plot_tables report_page timeline",
    "compute_gpu": "cluster_calibration expected_error gpu_calibration gpu_data_sheets gpu_kernels kernel_validation",
    "compute_roofline": "roofline",
    "compute_systolic": "generate systolic_array systolic_plugin systolic_stalls",
    "memory": "memory_models",
    "training_loops": "training_loops",
    "released": "native_plugin notebooks pages plugin_page plugin_templates previous_version releases site studies wheels your_own",
    "project": (
        "architecture_page code_sizes contributing development docs examples explain_page fabrics_page figures key_by_key language links "
        "rooms stragglers validation workflows"
    ),
}
"""The modules of tests that are in no folder: those of each package, and of the project as a whole, without `test_` and `.py`.

`released` are those of what users get: packages as they are installed, and the pages of the documentation.
"""


def tests_of(part: str) -> list[str]:
    """The folders and modules with the tests of a package, or of another part of the tests, from the project's folder on."""
    folders = part, f"{part}s", f"py{part}"  # tests/sweeps is of the package sweep; a folder torch would hide that of PyTorch
    result = [TESTS / each for each in folders if (TESTS / each).is_dir()]
    result += [path for each in OF_PACKAGES.get(part, "").split() if (path := TESTS / f"test_{each}.py").is_file()]
    return [str(path.relative_to(ROOT)) for path in result]


def parts() -> set[str]:
    """What can be tested alone: packages, and other folders of tests."""
    return {*OF_PACKAGES, *(path.parent.name for path in TESTS.glob("*/test_*.py")), "sweep", "torch"}


def loose() -> set[str]:
    """The modules that are in no folder."""
    return {path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py")}


def chosen(arguments: Sequence[str]) -> list[str]:
    """Arguments of pytest, where the names of parts select their tests; not behind an option that takes a word."""
    known = parts()
    result: list[str] = []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        result += tests_of(argument) if argument in known and before not in TAKE_A_WORD else [argument]
    return result
