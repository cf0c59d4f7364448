// The Python module astra_sim_network_flow._core: networks of flows as network function tables, and shares of links by themselves.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <astra_sim/core_class.hpp>
#include <astra_sim/fields.hpp>
#include <new>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "even_sharing.hpp"
#include "network.hpp"
#include "sharing.hpp"
#include "weighted_sharing.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace astra;
using namespace astra::flow;

namespace {

constexpr std::int64_t kMostCapacity = std::int64_t{1} << 50;
constexpr std::int64_t kMostWeight = std::int64_t{1} << 50;

using Row = std::tuple<int, int, double, std::vector<double>, std::vector<std::tuple<int, int, double, double, int>>, std::vector<int>,
                       std::vector<std::vector<int>>>;

void make_network(Network* place, const std::vector<Row>& rows, const nb::object& options) {
  std::vector<Group> groups;
  for (const auto& [size, nodes, nic_latency_ns, switch_latency_ns, links, destination_order, next_links] : rows) {
    Group group{size, nodes, nic_latency_ns, switch_latency_ns, {}, destination_order, next_links};
    for (const auto& [source, target, bandwidth, latency, cost] : links) group.links.push_back({source, target, bandwidth, latency, cost});
    groups.push_back(std::move(group));
  }
  new (place) Network(Fabric(std::move(groups)), struct_of<Rules>(options));
}

nb::dict figures(const Network& network) {
  nb::list links;
  for (int link = 0; link < count_of(network.figures()); ++link) {
    const LinkFigures& of = at(network.figures(), link);
    if (of.messages > 0) links.append(nb::make_tuple(link, of.messages, of.bytes, of.largest_flows));
  }
  nb::dict result;
  result["now_ps"] = network.now();
  result["flows"] = network.flows();
  result["shared"] = network.shared();
  result["links"] = links;
  return result;
}

// Shares by themselves, with arguments that are checked.
void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

template <class Kind>
void make_sharing(Kind* place, const std::vector<std::int64_t>& capacity) {
  for (std::int64_t each : capacity) require(each > 0 && each <= kMostCapacity, "a capacity is not above 0 and at most 2^50");
  new (place) Kind(capacity);
}

int add(Sharing& sharing, std::int64_t weight, std::int64_t bound, const std::vector<std::pair<int, std::int64_t>>& links) {
  require(!links.empty(), "a flow uses no link");
  require(weight > 0 && weight <= kMostWeight && bound > 0, "a weight is not 1 to 2^50, or a bound not above 0");
  for (const auto& [link, own] : links) {
    require(link >= 0 && link < sharing.links() && own > 0 && own <= kMostWeight, "a flow uses a link that is not there, or not at all");
  }
  return sharing.add(weight, bound, links);
}

int add_weighted(WeightedSharing& sharing, std::int64_t weight, std::optional<std::int64_t> bound,
                 const std::vector<std::pair<int, std::int64_t>>& links) {
  return add(sharing, weight, bound.value_or(Sharing::kNoBound), links);
}

int add_even(EvenSharing& sharing, const std::vector<int>& links) {
  std::vector<std::pair<int, std::int64_t>> used;
  for (int link : links) used.emplace_back(link, 1);
  return add(sharing, 1, Sharing::kNoBound, used);
}

std::vector<int> settle(Sharing& sharing) {
  sharing.settle();
  std::vector<int> result;
  for (const Sharing::Changed& each : sharing.changed()) result.push_back(each.flow);
  return result;
}

int known(const Sharing& sharing, int flow) {
  require(sharing.has(flow), "a flow that is not there");
  return flow;
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "Flows that share links: networks as function tables, and the sharing by itself.";
  auto core = nb::class_<Network>(module, "Network", "The flows of a run.");
  add_core_functions(core)
      .def(
          "__init__", &make_network, "groups"_a, "options"_a,
          "Of each dimension: size, nodes, NIC latency, latencies of switches, links (source, target, bytes/ns, ns, cost), turns, and next "
          "links where they are named.")
      .def("figures", &figures,
           "When the last thing happened (ps), flows, how often rates were computed, and number, messages, bytes and most flows at a time "
           "of "
           "every link that carried something.");

  nb::class_<Sharing>(module, "Sharing", "Max-min fair shares. Capacities, bounds and rates are whole numbers.")
      .def(
          "remove", [](Sharing& sharing, int flow) { sharing.remove(known(sharing, flow)); }, "flow"_a, "A flow goes.")
      .def("settle", &settle, "Compute the rates that may have changed. Returns their flows.")
      .def("rate", [](const Sharing& sharing, int flow) { return sharing.rate(known(sharing, flow)); }, "flow"_a);
  nb::class_<WeightedSharing, Sharing>(module, "WeightedSharing", "Shares of flows with weights and bounds.")
      .def("__init__", &make_sharing<WeightedSharing>, "capacity"_a)
      .def("add", &add_weighted, "weight"_a, "bound"_a.none(), "links"_a,
           "A flow comes. Its links: number, weight there. Returns its number.");
  nb::class_<EvenSharing, Sharing>(module, "EvenSharing", "Shares of flows of equal weights, without bounds.")
      .def("__init__", &make_sharing<EvenSharing>, "capacity"_a)
      .def("add", &add_even, "links"_a, "A flow comes. Its links. Returns its number.");
}
