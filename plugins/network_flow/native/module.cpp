// The Python module astra_sim_network_flow._core: networks of flows as network function tables, and shares of links by themselves.
#include <astra_sim/network.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <astra_sim/interrupt.hpp>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "network.hpp"
#include "sharing.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace astra;
using namespace astra::flow;
using astra::fabric::HostForwarding;

namespace {

// A network, and the table that speaks for it.
struct TableOwner {
  explicit TableOwner(Fabric fabric, const Rules& rules) : network(std::move(fabric), rules) {
    network.watch([this] { signals.step(0); });
    table.version = ASTRA_NETWORK_VERSION;
    table.size = sizeof(table);
    table.state = this;
    table.inject = [](void* self, std::int64_t time, const astra_message* messages, std::size_t count) {
      TableOwner& owner = owner_of(self);
      return guarded(owner.error, [&] {
        for (std::size_t i = 0; i < count; ++i) {
          owner.network.inject(time, messages[i].number, messages[i].source, messages[i].destination, messages[i].bytes);
        }
      });
    };
    table.advance = [](void* self, std::int64_t until, std::int64_t* time, const std::uint64_t** numbers, std::size_t* count) {
      TableOwner& owner = owner_of(self);
      return guarded(owner.error, [&] {
        *count = owner.network.advance(until) ? owner.network.arrived.size() : 0;
        *time = owner.network.time;
        *numbers = owner.network.arrived.data();
      });
    };
    table.next_event = [](void* self) {
      TableOwner& owner = owner_of(self);
      std::int64_t next = 0;
      return guarded(owner.error, [&] { next = owner.network.next_event(); }) == 0 ? next : 0;
    };
    table.error = [](void* self) { return owner_of(self).error.c_str(); };
  }

  static TableOwner& owner_of(void* state) { return *static_cast<TableOwner*>(state); }

  Interruptible<1> signals;
  Network network;
  std::string error;
  astra_network table{};
};

constexpr std::int64_t kMostCapacity = std::int64_t{1} << 50;
constexpr std::int64_t kMostWeight = std::int64_t{1} << 50;

template <class Enum>
Enum choice(const std::string& name, std::initializer_list<std::pair<const char*, Enum>> known) {
  for (const auto& [word, value] : known) {
    if (name == word) return value;
  }
  throw std::invalid_argument("unknown choice: " + name);
}

Rules rules_of(const nb::dict& table) {
  Rules rules;
  auto number = [&](const char* key, auto& field) { field = nb::cast<std::remove_reference_t<decltype(field)>>(table[key]); };
  auto word = [&](const char* key) { return nb::cast<std::string>(table[key]); };
  rules.routing = choice<Routing>(word("routing"), {{"hash", Routing::hash},
                                                    {"destination", Routing::destination},
                                                    {"first", Routing::first},
                                                    {"split", Routing::split},
                                                    {"valiant", Routing::valiant},
                                                    {"ugal", Routing::ugal}});
  rules.npus_forward = choice<HostForwarding>(
      word("npus_forward"),
      {{"if_needed", HostForwarding::if_needed}, {"always", HostForwarding::always}, {"never", HostForwarding::never}});
  rules.by_round_trip = choice<bool>(word("fairness"), {{"equal", false}, {"rtt", true}});
  number("seed", rules.seed);
  number("bandwidth_factor", rules.bandwidth_factor);
  number("latency_factor", rules.latency_factor);
  number("weight_bytes", rules.weight_bytes);
  number("window_bytes", rules.window_bytes);
  number("ack_share", rules.ack_share);
  number("tolerance", rules.tolerance);
  return rules;
}

using Row = std::tuple<int, int, double, std::vector<double>, std::vector<std::tuple<int, int, double, double, int>>, std::vector<int>,
                       std::vector<std::vector<int>>>;

nb::capsule function_table(const std::vector<Row>& rows, const nb::dict& rules) {
  std::vector<Group> groups;
  for (const auto& [size, nodes, nic_latency_ns, switch_latency_ns, links, turns, next_links] : rows) {
    Group group{size, nodes, nic_latency_ns, switch_latency_ns, {}, turns, next_links};
    for (const auto& [source, target, bandwidth, latency, cost] : links) group.links.push_back({source, target, bandwidth, latency, cost});
    groups.push_back(std::move(group));
  }
  auto owner = std::make_unique<TableOwner>(Fabric(std::move(groups)), rules_of(rules));
  nb::capsule capsule(&owner->table, ASTRA_NETWORK_CAPSULE,
                      [](void* pointer) noexcept { delete static_cast<TableOwner*>(static_cast<astra_network*>(pointer)->state); });
  owner.release();
  return capsule;
}

Network& network_of(const nb::capsule& capsule) { return TableOwner::owner_of(static_cast<astra_network*>(capsule.data())->state).network; }

// Runs `action` without the interpreter lock. Raises what the handler of a signal has raised meanwhile.
template <class Action>
void unlocked(Action action) {
  bool interrupted = false;
  {
    nb::gil_scoped_release release;
    try {
      action();
    } catch (const Interrupted&) {
      interrupted = true;
    }
  }
  if (interrupted) throw nb::python_error();
}

using Sent = std::tuple<std::uint64_t, int, int, std::int64_t>;

void inject(const nb::capsule& capsule, std::int64_t time, const std::vector<Sent>& messages) {
  Network& network = network_of(capsule);
  unlocked([&] {
    for (const auto& [number, source, destination, bytes] : messages) network.inject(time, number, source, destination, bytes);
  });
}

nb::object advance(const nb::capsule& capsule, std::optional<std::int64_t> until) {
  Network& network = network_of(capsule);
  bool any = false;
  unlocked([&] { any = network.advance(until.value_or(ASTRA_NEVER)); });
  if (!any) return nb::none();
  return nb::make_tuple(network.time, network.arrived);
}

nb::dict figures(const nb::capsule& capsule) {
  const Network& network = network_of(capsule);
  nb::list links;
  for (int link = 0; link < count_of(network.figures()); ++link) {
    const LinkFigures& of = at(network.figures(), link);
    if (of.messages > 0) links.append(nb::make_tuple(link, of.messages, of.bytes, of.largest_flows));
  }
  nb::dict found;
  found["now_ps"] = network.now();
  found["flows"] = network.flows();
  found["shared"] = network.shared();
  found["links"] = links;
  return found;
}

// Shares by themselves, with arguments that are checked.
void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

void make_sharing(Sharing* place, const std::vector<std::int64_t>& capacity) {
  for (std::int64_t each : capacity) require(each > 0 && each <= kMostCapacity, "a capacity is not above 0 and at most 2^50");
  new (place) Sharing(capacity);
}

int add(Sharing& sharing, std::int64_t weight, std::optional<std::int64_t> bound, const std::vector<std::pair<int, std::int64_t>>& links) {
  require(!links.empty(), "a flow uses no link");
  require(weight > 0 && weight <= kMostWeight && bound.value_or(1) > 0, "a weight is not 1 to 2^50, or a bound not above 0");
  for (const auto& [link, own] : links) {
    require(link >= 0 && link < sharing.links() && own > 0 && own <= kMostWeight, "a flow uses a link that is not there, or not at all");
  }
  return sharing.add(weight, bound.value_or(Sharing::kNoBound), links);
}

int known(const Sharing& sharing, int flow) {
  require(sharing.has(flow), "a flow that is not there");
  return flow;
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "Flows that share links: networks as function tables, and the sharing by itself.";
  module.def("function_table", &function_table, "groups"_a, "rules"_a,
             "A capsule with a new table. Of each dimension: size, nodes, NIC latency, latencies of switches, links (source, target, "
             "bytes/ns, ns, cost), turns, and next links where they are named.");
  module.def("inject", &inject, "capsule"_a, "time"_a, "messages"_a, "Messages (number, source, destination, bytes) are sent.");
  module.def("advance", &advance, "capsule"_a, "until"_a.none(),
             "When the next messages arrive, and their numbers; None: none by `until`.");
  module.def("figures", &figures, "capsule"_a,
             "Of a table: when the last thing happened (ps), flows, how often rates were computed, and number, messages, bytes and most "
             "flows at a time of every link that carried something.");

  nb::class_<Sharing>(module, "Sharing", "Weighted max-min fair shares. Capacities, bounds and rates are whole numbers.")
      .def("__init__", &make_sharing, "capacity"_a)
      .def("add", &add, "weight"_a, "bound"_a.none(), "links"_a, "A flow comes. Its links: number, weight there. Returns its number.")
      .def(
          "remove", [](Sharing& sharing, int flow) { sharing.remove(known(sharing, flow)); }, "flow"_a, "A flow goes.")
      .def("settle", &Sharing::settle, "Compute the rates that may have changed. Returns their flows.")
      .def("rate", [](const Sharing& sharing, int flow) { return sharing.rate(known(sharing, flow)); }, "flow"_a);
}
