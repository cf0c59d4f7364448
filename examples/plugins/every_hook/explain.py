import astra_sim

run = astra_sim.simulate(platform="plugin:line?size=8", workload="one.line", explain="plugin:shares")
print({kind: f"{percent:.1f} %" for kind, percent in run.explanation.to_dict()["percent"].items()})
