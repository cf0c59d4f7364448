// The Python module.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "function_table.hpp"
#include "network.hpp"
#include "time.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace astra;
using namespace astra::roce;

namespace {

// Fields of a record by the keys of a table. Every key must be taken.
class Fields {
 public:
  explicit Fields(const nb::dict& table) : table_(table), left_(nb::len(table)) {}

  template <class Field>
  Fields& operator()(const char* key, Field& field) {
    if (table_.contains(key)) {
      field = nb::cast<Field>(table_[key]);
      --left_;
    }
    return *this;
  }
  template <class Enum>
  Fields& choice(const char* key, Enum& field, std::initializer_list<std::pair<const char*, Enum>> known) {
    if (!table_.contains(key)) return *this;
    const auto name = nb::cast<std::string>(table_[key]);
    for (const auto& [word, value] : known) {
      if (name != word) continue;
      field = value;
      --left_;
      return *this;
    }
    throw std::invalid_argument(std::string(key) + ": unknown choice " + name);
  }
  void finish() const {
    if (left_ != 0) throw std::invalid_argument("a table has keys that are not known");
  }

 private:
  const nb::dict& table_;
  std::size_t left_;
};

Settings settings_of(const nb::dict& table) {
  Settings s;
  Fields fields(table);
  fields.choice<Algorithm>("algorithm", s.algorithm,
                           {{"none", Algorithm::none},
                            {"dcqcn", Algorithm::dcqcn},
                            {"hpcc", Algorithm::hpcc},
                            {"timely", Algorithm::timely},
                            {"dctcp", Algorithm::dctcp},
                            {"pint", Algorithm::pint},
                            {"swift", Algorithm::swift}});
  fields.choice<Balancing>("balancing", s.balancing,
                           {{"ecmp", Balancing::ecmp},
                            {"spray_random", Balancing::spray_random},
                            {"spray_round_robin", Balancing::spray_round_robin},
                            {"flowlet", Balancing::flowlet},
                            {"adaptive", Balancing::adaptive},
                            {"valiant", Balancing::valiant},
                            {"ugal", Balancing::ugal}});
  fields("ticks_per_ns", s.ticks_per_ns)("seed", s.seed)("extrapolate", s.extrapolate)("payload_bytes", s.payload_bytes)("header_bytes",
                                                                                                                         s.header_bytes);
  fields("ack_bytes", s.ack_bytes)("shortest_ack_bytes", s.shortest_ack_bytes)("pause_bytes", s.pause_bytes)("gap_bytes", s.gap_bytes);
  fields("telemetry_bytes", s.telemetry_bytes)("start_rounds", s.start_rounds)("complete_at_arrival", s.complete_at_arrival);
  fields("connections", s.connections);
  fields("reserve_bytes", s.reserve_bytes)("resume_margin_bytes", s.resume_margin_bytes)("thresholds_wrap", s.thresholds_wrap);
  fields("pauses", s.pauses)("marking", s.marking)("windows", s.windows)("common_window", s.common_window);
  fields("variable_window", s.variable_window)("pacing", s.pacing)("acks_first", s.acks_first);
  fields("blocked_pairs_hold", s.blocked_pairs_hold)("chunk_bytes", s.chunk_bytes)("ack_interval_bytes", s.ack_interval_bytes);
  fields("back_to_chunk", s.back_to_chunk)("nack_gap", s.nack_gap)("retransmission", s.retransmission)("slow_restart", s.slow_restart);
  fields("out_of_order", s.out_of_order)("flowlet_gap", s.flowlet_gap)("least_rate", s.least_rate)("rate_step", s.rate_step);
  fields("large_rate_step", s.large_rate_step)("gain", s.gain)("alpha_interval", s.alpha_interval);
  fields("decrease_interval", s.decrease_interval)("increase_interval", s.increase_interval);
  fields("tick_after_decrease", s.tick_after_decrease)("fast_recovery", s.fast_recovery)("clamp_target", s.clamp_target);
  fields("target_utilisation", s.target_utilisation)("stages", s.stages)("telemetry_unit", s.telemetry_unit);
  fields("fast_reaction", s.fast_reaction)("rate_of_hop", s.rate_of_hop)("sampled_feedback", s.sampled_feedback);
  fields("divides_by_window", s.divides_by_window);
  fields("pint_base", s.pint_base)("pint_share", s.pint_share)("dctcp_step", s.dctcp_step)("timely_weight", s.timely_weight);
  fields("timely_decrease", s.timely_decrease)("timely_low", s.timely_low)("timely_high", s.timely_high)("timely_round", s.timely_round);
  fields("swift_base", s.swift_base)("swift_hop", s.swift_hop)("swift_range", s.swift_range);
  fields("swift_smallest_window", s.swift_smallest_window)("swift_largest_window", s.swift_largest_window);
  fields("swift_increase", s.swift_increase)("swift_decrease", s.swift_decrease);
  fields("swift_largest_decrease", s.swift_largest_decrease);
  fields.finish();
  return s;
}

using LinkRow = std::tuple<NodeId, NodeId, std::int64_t, Tick, double, std::int64_t, std::int64_t, double, std::int64_t, int, int>;
using DimensionRow = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::vector<std::pair<int, int>>, std::vector<int>>;

// The links of a plan, of a platform with `dimensions` dimensions, or with 0 if routes do not go by dimensions.
void add_links(Plan& plan, const std::vector<LinkRow>& links, std::size_t dimensions) {
  for (const auto& [source, target, rate, delay, error, from, all, share, headroom, cost, dimension] : links) {
    if (source >= plan.nodes || target >= plan.nodes || rate < 1 || delay < 0 || cost < 1)
      throw std::invalid_argument("a link that cannot be");
    const bool known = dimensions == 0 || (dimension >= 0 && static_cast<std::size_t>(dimension) < dimensions);
    if (!known) throw std::invalid_argument("a link of no dimension");
    plan.links.push_back({source, target, rate, delay, error, from, all, share, headroom, cost, dimension});
  }
}

void add_dimensions(Plan& plan, const std::vector<DimensionRow>& dimensions) {
  for (const auto& [stride, size, nodes, ends, destination_order] : dimensions) {
    DimensionPlan& created = plan.dimensions.emplace_back(DimensionPlan{stride, size, nodes, ends, {}});
    if (stride < 1 || size < 1 || nodes < size || (!destination_order.empty() && destination_order.size() != size))
      throw std::invalid_argument("a dimension that cannot be");
    for (std::size_t place = 0; place < destination_order.size(); ++place)
      created.destination_order.emplace_back(static_cast<int>(place), destination_order[place]);
  }
}

Plan plan_of(std::uint32_t npus, std::vector<std::uint32_t> ids, std::vector<std::int64_t> memory, std::vector<std::uint32_t> addresses,
             const std::vector<LinkRow>& links, std::vector<std::uint32_t> reverse, bool descending_order,
             const std::vector<NodeId>& preferred, const std::vector<std::tuple<Tick, NodeId, NodeId>>& failures,
             const std::vector<DimensionRow>& dimensions, std::vector<std::uint32_t> places, std::vector<bool> is_switch,
             std::vector<std::vector<LinkId>> named, std::vector<NodeId> middles) {
  Plan plan;
  plan.npus = npus;
  plan.nodes = static_cast<std::uint32_t>(ids.size());
  add_links(plan, links, dimensions.size());
  for (const auto& [time, one, other] : failures) plan.failures.push_back({time, one, other});
  if (npus > plan.nodes || addresses.size() != npus || reverse.size() != links.size()) throw std::invalid_argument("a plan that cannot be");
  for (const std::uint32_t link : reverse) {
    if (link >= links.size()) throw std::invalid_argument("a link without one back");
  }
  if (memory.size() != ids.size()) throw std::invalid_argument("a plan that cannot be");
  plan.ids = std::move(ids);
  plan.memory = std::move(memory);
  plan.addresses = std::move(addresses);
  plan.reverse = std::move(reverse);
  plan.descending_order = descending_order;
  plan.preferred.assign(plan.nodes, false);
  for (const NodeId node : preferred) plan.preferred.at(node) = true;
  add_dimensions(plan, dimensions);
  if (!dimensions.empty() && (places.size() != plan.nodes || is_switch.size() != plan.nodes))
    throw std::invalid_argument("a plan that cannot be");
  plan.places = std::move(places);
  plan.is_switch = std::move(is_switch);
  if (!named.empty() && named.size() != static_cast<std::size_t>(plan.nodes) * npus) throw std::invalid_argument("a plan that cannot be");
  for (const NodeId node : middles) {
    if (node < npus || node >= plan.nodes) throw std::invalid_argument("a plan that cannot be");
  }
  plan.named = std::move(named);
  plan.middles = std::move(middles);
  return plan;
}

std::int64_t picoseconds(const Network& network, Tick ticks) { return ticks < 0 ? -1 : ticks * picoseconds_of_tick(network.settings()); }

nb::object capsule_of(astra_network_v2* table) {
  PyObject* capsule = PyCapsule_New(table, ASTRA_NETWORK_CAPSULE_V2, [](PyObject* self) {
    destroy_table(static_cast<astra_network_v2*>(PyCapsule_GetPointer(self, ASTRA_NETWORK_CAPSULE_V2)));
  });
  if (!capsule) nb::raise_python_error();
  return nb::steal(capsule);
}

nb::object advance(Network& network, std::optional<std::int64_t> until) {
  bool result = false;
  try {
    nb::gil_scoped_release release;
    result = network.advance(until ? *until / picoseconds_of_tick(network.settings()) : kNever);
  } catch (const Interrupted&) {
    nb::raise_python_error();
  }
  if (!result) return nb::none();
  nb::list deliveries;
  for (const Delivery& each : network.delivered()) deliveries.append(nb::make_tuple(each.number, each.sent));
  return nb::make_tuple(picoseconds(network, network.now()), deliveries);
}

nb::dict statistics(Network& network) {
  network.settle();
  const Monitor& monitor = network.parts().monitor;
  nb::dict table;
  table["packets"] = monitor.packets;
  table["messages"] = monitor.messages;
  table["drops"] = monitor.drops;
  table["losses"] = monitor.losses;
  table["pfc_frames"] = monitor.pause_frames;
  table["marks"] = monitor.marks;
  table["nacks"] = monitor.refusals;
  table["timeouts"] = monitor.timeouts;
  table["events"] = network.events();
  return table;
}

nb::list flows(Network& network) {
  network.settle();
  nb::list rows;
  for (const FlowRecord& flow : network.parts().monitor.flows) {
    rows.append(nb::make_tuple(flow.number, flow.source, flow.destination, flow.source_port, flow.bytes, picoseconds(network, flow.sent),
                               picoseconds(network, flow.started), picoseconds(network, flow.received), picoseconds(network, flow.ended),
                               flow.packets, flow.acks, flow.nacks, flow.marked_acks));
  }
  return rows;
}

nb::list pauses(Network& network) {
  network.settle();
  nb::list rows;
  for (const PauseRecord& each : network.parts().monitor.pauses) {
    rows.append(nb::make_tuple(picoseconds(network, each.time), each.node, each.port, each.pause));
  }
  return rows;
}

nb::list queue_samples(const Network& network) {
  nb::list rows;
  for (const QueueSample& each : network.samples().taken())
    rows.append(nb::make_tuple(picoseconds(network, each.time), each.port, each.bytes));
  return rows;
}

nb::list link_loads(Network& network) {
  network.settle();
  nb::list rows;
  for (LinkId link = 0; link < network.parts().plan.links.size(); ++link) {
    rows.append(nb::make_tuple(network.parts().wires.bytes_sent(link), picoseconds(network, network.parts().wires.busy(link)),
                               network.parts().switches.queues().highest(link)));
  }
  return rows;
}

}  // namespace

NB_MODULE(_core, module) {
  nb::exception<Deadlock>(module, "Deadlock", PyExc_RuntimeError);
  nb::exception<InvalidMessage>(module, "InvalidMessage", PyExc_ValueError);

  nb::class_<Network>(module, "Network")
      .def(
          "__init__",
          [](Network* self, const nb::dict& settings, std::uint32_t npus, std::vector<std::uint32_t> ids, std::vector<std::int64_t> memory,
             std::vector<std::uint32_t> addresses, const std::vector<LinkRow>& links, std::vector<std::uint32_t> reverse,
             bool descending_order, const std::vector<NodeId>& preferred, const std::vector<std::tuple<Tick, NodeId, NodeId>>& failures,
             const std::vector<DimensionRow>& dimensions, std::vector<std::uint32_t> places, std::vector<bool> is_switch,
             std::vector<std::vector<LinkId>> named, std::vector<NodeId> middles) {
            new (self)
                Network(settings_of(settings), plan_of(npus, std::move(ids), std::move(memory), std::move(addresses), links,
                                                       std::move(reverse), descending_order, preferred, failures, dimensions,
                                                       std::move(places), std::move(is_switch), std::move(named), std::move(middles)));
          },
          "settings"_a, "npus"_a, "ids"_a, "memory"_a, "addresses"_a, "links"_a, "reverse"_a, "descending_order"_a, "preferred"_a,
          "failures"_a, "dimensions"_a, "places"_a, "is_switch"_a, "named"_a, "middles"_a)
      .def("inject",
           [](Network& self, std::int64_t time, std::uint64_t number, NodeId source, NodeId destination, std::int64_t bytes,
              std::int32_t traffic_class, std::int32_t queue, std::uint64_t tag) {
             self.inject(ticks_of(time, self.settings()),
                         {number, source, destination, bytes, priority_group(traffic_class), connection_of(self.settings(), queue, tag)});
           })
      .def("advance", &advance, "until"_a.none())
      .def("keep",
           [](Network& self, bool flows, bool pauses) {
             self.monitor().keeps_flows = flows;
             self.monitor().keeps_pauses = pauses;
           })
      .def(
          "watch",
          [](Network& self, const nb::object& tell) {
            if (tell.is_none()) return self.watch(nullptr);
            self.watch([tell, tick = picoseconds_of_tick(self.settings())](std::int64_t time) {
              PyObject* answer = PyObject_CallFunction(tell.ptr(), "L", static_cast<long long>(time * tick));
              Py_XDECREF(answer);
              return answer != nullptr;
            });
          },
          "tell"_a.none())
      .def("statistics", &statistics)
      .def("flows", &flows)
      .def("pauses", &pauses)
      .def("sample_queues", &Network::sample_queues)
      .def("queue_samples", &queue_samples)
      .def("link_loads", &link_loads)
      .def_prop_ro("now_ps", [](const Network& self) { return picoseconds(self, self.now()); })
      .def("connected", [](const Network& self, NodeId source, NodeId target) { return self.parts().routes.connected(source, target); })
      .def("next_hops",
           [](const Network& self, NodeId node, NodeId npu) {
             const auto next_hops = self.parts().routes.next_hops(node, npu);
             return std::vector<LinkId>(next_hops.begin(), next_hops.end());
           })
      .def("round_trip_ns",
           [](const Network& self, NodeId source, NodeId target) { return self.parts().routes.round_trip_ns(source, target); })
      .def_prop_ro("events_played_back", [](const Network& self) { return self.events_played_back(); })
      .def_prop_ro("longest_round_trip_ns", [](const Network& self) { return self.parts().routes.longest_round_trip_ns(); })
      .def_prop_ro("largest_product_bytes", [](const Network& self) { return self.parts().routes.largest_product_bytes(); });

  module.def("function_table", [](std::shared_ptr<Network> network) { return capsule_of(make_table(std::move(network))); });
}
