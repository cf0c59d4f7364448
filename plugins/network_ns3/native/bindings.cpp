// SPDX-License-Identifier: GPL-2.0-only
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
#include "routes.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace astra;
using namespace astra::tcp;

namespace {

Settings settings_of(const nb::dict& table) {
  Settings s;
  std::size_t taken = 0;
  const auto field = [&](const char* key, auto& value) {
    value = nb::cast<std::remove_reference_t<decltype(value)>>(table[key]);
    ++taken;
  };
  field("congestion_control", s.congestion_control);
  field("marks", s.marks);
  field("hystart", s.hystart);
  field("connection_per_message", s.connection_per_message);
  field("segment_bytes", s.segment_bytes);
  field("initial_window", s.initial_window);
  field("ack_every", s.ack_every);
  field("ack_delay", s.ack_delay);
  field("least_timeout", s.least_timeout);
  field("connect_timeout", s.connect_timeout);
  field("retries", s.retries);
  field("connect_retries", s.connect_retries);
  field("send_buffer", s.send_buffer);
  field("receive_buffer", s.receive_buffer);
  field("queue_packets", s.queue_packets);
  field("nic_queue_packets", s.nic_queue_packets);
  field("mark_packets", s.mark_packets);
  field("seed", s.seed);
  if (taken != nb::len(table)) throw std::invalid_argument("a table has keys that are not known");
  return s;
}

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

nb::object advance(Network& network, std::optional<std::int64_t> until) {
  bool found = false;
  try {
    nb::gil_scoped_release release;
    found = network.advance(until.value_or(kNever));
  } catch (const Interrupted&) {
    nb::raise_python_error();
  }
  if (!found) return nb::none();
  nb::list deliveries;
  for (const Delivery& each : network.delivered()) deliveries.append(nb::make_tuple(each.number, each.acknowledged));
  return nb::make_tuple(network.time(), deliveries);
}

void watch(Network& network, const nb::object& tell) {
  if (tell.is_none()) return network.watch(nullptr);
  network.watch([tell](std::int64_t time) {
    PyObject* answer = PyObject_CallFunction(tell.ptr(), "L", static_cast<long long>(time));
    Py_XDECREF(answer);
    return answer != nullptr;
  });
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

nb::object function_table(std::shared_ptr<Network> network) {
  PyObject* capsule = PyCapsule_New(make_table(std::move(network)), ASTRA_NETWORK_CAPSULE_V2, [](PyObject* self) {
    destroy_table(static_cast<astra_network_v2*>(PyCapsule_GetPointer(self, ASTRA_NETWORK_CAPSULE_V2)));
  });
  if (!capsule) nb::raise_python_error();
  return nb::steal(capsule);
}

nb::tuple check(const Plan& plan) {
  const Routes::Check found = Routes::check(plan);
  return nb::make_tuple(found.unreachable, found.longest);
}

}  // namespace

NB_MODULE(_core, module) {
  nb::exception<Stuck>(module, "Stuck", PyExc_RuntimeError);
  nb::exception<Impossible>(module, "Impossible", PyExc_ValueError);

  nb::class_<Plan>(module, "Plan")
      .def(
          "__init__",
          [](Plan* self, std::uint32_t npus, std::uint32_t nodes, bool through_npus, const std::vector<LinkRow>& links) {
            new (self) Plan(plan_of(npus, nodes, through_npus, links));
          },
          "npus"_a, "nodes"_a, "through_npus"_a, "links"_a)
      .def("check", &check);

  nb::class_<Network>(module, "Network")
      .def(
          "__init__",
          [](Network* self, const nb::dict& settings, const Plan& plan, bool counts) {
            new (self) Network(settings_of(settings), plan, counts);
          },
          "settings"_a, "plan"_a, "counts"_a)
      .def("inject",
           [](Network& self, std::int64_t time, std::uint64_t number, std::uint32_t source, std::uint32_t destination, std::int64_t bytes,
              std::int32_t traffic_class) { self.inject(time, {number, source, destination, bytes, traffic_class}); })
      .def("advance", &advance, "until"_a.none())
      .def("watch", &watch, "tell"_a.none())
      .def("figures", &figures)
      .def("messages", &messages);
  module.def("function_table", &function_table, "network"_a);
}
