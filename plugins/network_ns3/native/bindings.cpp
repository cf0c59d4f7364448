// SPDX-License-Identifier: GPL-2.0-only
// The Python module.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <astra_sim/core_class.hpp>
#include <tuple>

#include "network.hpp"
#include "routes.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace astra;
using namespace astra::tcp;

namespace {

using LinkRow = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::int64_t, double, std::uint32_t, int>;

Plan plan_of(std::uint32_t npus, std::uint32_t nodes, bool through_npus, const std::vector<LinkRow>& links) {
  Plan plan{npus, nodes, through_npus, {}};
  for (const auto& [source, target, rate, delay, error, reverse, cost] : links) {
    if (source >= nodes || target >= nodes || rate < 1 || delay < 0 || reverse >= links.size() || cost < 1) {
      throw std::invalid_argument("a link that cannot be");
    }
    plan.links.push_back({source, target, rate, delay, error, reverse, cost});
  }
  if (npus > nodes) throw std::invalid_argument("a plan that cannot be");
  return plan;
}

nb::dict figures(const Network& network) {
  const Figures of = network.figures();
  nb::dict table;
  table["now_ps"] = of.now;
  table["events"] = of.events;
  table["connections"] = of.connections;
  table["retransmissions"] = of.retransmissions;
  table["drops"] = of.drops;
  table["marks"] = of.marks;
  nb::list loads;
  for (const Load& load : of.loads)
    loads.append(nb::make_tuple(load.packets, load.bytes, load.busy, load.highest_queue, load.sum_of_queues));
  table["loads"] = loads;
  return table;
}

nb::list messages(const Network& network) {
  nb::list rows;
  for (const Message& each : network.messages()) {
    rows.append(nb::make_tuple(each.number, each.started, each.received, each.acknowledged, each.packets, each.acks, each.marked_acks));
  }
  return rows;
}

nb::tuple check(const Plan& plan) {
  const Routes::Check result = Routes::check(plan);
  return nb::make_tuple(result.unreachable, result.longest);
}

}  // namespace

NB_MODULE(_core, module) {
  nb::class_<Plan>(module, "Plan")
      .def(
          "__init__",
          [](Plan* self, std::uint32_t npus, std::uint32_t nodes, bool through_npus, const std::vector<LinkRow>& links) {
            new (self) Plan(plan_of(npus, nodes, through_npus, links));
          },
          "npus"_a, "nodes"_a, "through_npus"_a, "links"_a)
      .def("check", &check);

  auto core = nb::class_<Network>(module, "Network");
  add_core_functions(core)
      .def(
          "__init__",
          [](Network* self, const nb::object& options, std::uint32_t mark_packets, const Plan& plan, bool counts) {
            auto settings = struct_of<Settings>(options);
            settings.mark_packets = mark_packets;
            new (self) Network(settings, plan, counts);
          },
          "options"_a, "mark_packets"_a, "plan"_a, "counts"_a)
      .def("figures", &figures)
      .def("messages", &messages);
}
