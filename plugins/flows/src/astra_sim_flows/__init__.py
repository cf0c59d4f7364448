"""Messages without a workload: flows from files and patterns on any network, and collectives by themselves."""
