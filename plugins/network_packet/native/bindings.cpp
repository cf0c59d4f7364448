// The Python module.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <astra_sim/core_class.hpp>
#include <astra_sim/interrupt.hpp>
#include <optional>

#include "base/index.hpp"
#include "network/network.hpp"
#include "network/rule_fields.hpp"
#include "quotient/quotient_network.hpp"
#include "traffic/traffic.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace astra;
using namespace astra::packet;

namespace {

ChannelSpec channel_of(const nb::dict& table) {
  ChannelSpec spec;
  auto set = [&](const char* key, auto& field) {
    if (table.contains(key)) field = nb::cast<std::remove_reference_t<decltype(field)>>(table[key]);
  };
  set("source", spec.source);
  set("sink", spec.sink);
  set("dimension", spec.dimension);
  set("latency_cycles", spec.latency.cycles);
  set("latency_ps", spec.latency.ps);
  set("flit_cycles", spec.flit_time.cycles);
  set("flit_ps", spec.flit_time.ps);
  set("serializer", spec.serializer);
  set("first_vnet", spec.first_vnet);
  set("vnets", spec.vnets);
  set("cost", spec.cost);
  set("ring", spec.ring);
  set("order", spec.order);
  set("source_port", spec.source_port);
  set("sink_port", spec.sink_port);
  set("source_port_varies", spec.source_port_varies);
  set("sink_port_varies", spec.sink_port_varies);
  if (table.contains("offset_map")) spec.offset_map = value_of<OffsetMap>("offset_map", table["offset_map"]);
  return spec;
}

// `settings` are the options that depend on the preset, `options` the others. No `threads` there: as many as there are processors.
Rules rules_of(const nb::object& settings, const nb::object& options, int vnets, std::int64_t clock_ps, bool serialized_credits,
               int processors) {
  auto rules = struct_of<Rules>(settings, options);
  rules.vnets = vnets;
  rules.clock_ps = clock_ps;
  rules.serialized_credits = serialized_credits;
  const int threads = value_of<int>("threads", options.attr("threads"));
  rules.when_long = threads == 0;
  rules.threads = threads == 0 ? processors : threads;
  return rules;
}

std::shared_ptr<Shape> make_shape(const Rules& rules, const std::vector<std::vector<int>>& coordinates, const std::vector<int>& sizes,
                                  const std::vector<int>& node_router) {
  std::vector<RouterSpec> routers(coordinates.size());
  for (std::size_t r = 0; r < coordinates.size(); ++r) routers[r].coordinates = coordinates[r];
  return std::make_shared<Shape>(rules, std::move(routers), sizes, node_router);
}

nb::list dependencies_of(const Network& network, std::size_t domain) {
  nb::list result;
  for (const Dependency& d : dependencies(network.shape(domain))) {
    result.append(
        nb::make_tuple(nb::make_tuple(d.channel, d.first_vc, d.end_vc), nb::make_tuple(d.next_channel, d.next_first_vc, d.next_end_vc)));
  }
  return result;
}

// Runs `action`. Returns whether it came to its end; if not, a Python exception is set.
template <class Action>
bool uninterrupted(Action action) {
  try {
    action();
    return true;
  } catch (const Interrupted&) {
    return false;
  }
}

// The factory of the next network, a function of Python.
QuotientNetwork::Make maker_of(const nb::object& make) {
  return [make](const std::vector<bool>& collapsed) {
    const nb::gil_scoped_acquire locked;
    try {
      return nb::cast<std::shared_ptr<MessageNetwork>>(make(collapsed));
    } catch (nb::python_error& error) {
      error.restore();
      throw Interrupted{};
    }
  };
}

nb::dict statistics(const MessageNetwork& network) {
  std::vector<std::int64_t> totals(Statistics::kTotals);
  nb::list channels;
  for (std::size_t number = 0; number < network.domains(); ++number) {
    const Statistics figures = network.statistics(number);
    const Shape& shape = network.shape(number);
    for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += figures.total(narrow<int>(i));
    for (int c = 0; c < shape.channels(); ++c) {
      const ChannelSpec& spec = at(shape.channel, c);
      channels.append(nb::make_tuple(number, at(shape.name, c), spec.dimension, spec.source, spec.sink,
                                     figures.of(c, Statistics::kChannelFlits), figures.of(c, Statistics::kChannelPackets),
                                     figures.of(c, Statistics::kChannelWaiting),
                                     real(spec.flit_time.cycles) + real(spec.flit_time.ps) / real(network.clock_ps())));
    }
  }
  auto histogram = [&](int from) { return std::vector<std::int64_t>(totals.begin() + from, totals.begin() + from + Statistics::kBuckets); };
  nb::dict result;
  result["packets"] = totals[Statistics::kPackets];
  result["flits"] = totals[Statistics::kFlits];
  result["hops"] = totals[Statistics::kHops];
  result["flit_hops"] = totals[Statistics::kFlitHops];
  result["queueing_cycles"] = totals[Statistics::kQueueing];
  result["network_cycles"] = totals[Statistics::kInNetwork];
  result["queueing_histogram"] = histogram(Statistics::kQueueingBucket);
  result["network_histogram"] = histogram(Statistics::kInNetworkBucket);
  result["cycles"] = network.now();
  result["copies"] = network.copies();
  result["channels"] = channels;
  return result;
}

nb::dict run_traffic(const std::shared_ptr<Shape>& shape, const nb::object& how, double rate, std::vector<int> target,
                     const nb::object& tell) {
  auto options = struct_of<TrafficOptions>(how);
  options.rate = rate;
  options.target = std::move(target);
  Traffic traffic(options, *shape);
  Domain domain(shape);
  Watcher watcher = watcher_of<nb::handle>(tell, 1);
  std::vector<std::string> waiting;
  bool interrupted = false;
  {
    nb::gil_scoped_release unlocked;
    interrupted = !uninterrupted([&] {
      traffic.run(domain, std::move(watcher));
      waiting = traffic.deadlock(domain);
    });
  }
  if (interrupted) throw nb::python_error();
  nb::list periods;
  for (const PeriodFigures& p : traffic.figures.periods) {
    periods.append(nb::make_tuple(p.packets, p.latency, p.in_network, p.squared, p.accepted_flits, p.offered_flits));
  }
  nb::list channels;
  for (int c = 0; c < shape->channels(); ++c) {
    const ChannelSpec& spec = at(shape->channel, c);
    channels.append(
        nb::make_tuple(at(shape->name, c), spec.dimension, spec.source, spec.sink, domain.statistics().of(c, Statistics::kChannelFlits)));
  }
  nb::dict result;
  result["periods"] = periods;
  result["hops"] = traffic.figures.hops;
  result["smallest"] = traffic.figures.smallest;
  result["largest"] = traffic.figures.largest;
  result["drained"] = traffic.drained;
  result["cycles"] = traffic.cycles;
  result["flit_hops"] = domain.statistics().total(Statistics::kFlitHops);
  result["waiting"] = waiting;
  result["channels"] = channels;
  return result;
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Flit-level network: routers, interfaces and channels, cycle by cycle.";
  nb::class_<Rules>(m, "Rules", "The timing rules of a network: its options, and what the platform adds to them.")
      .def_static("of", &rules_of, "settings"_a, "options"_a, "vnets"_a, "clock_ps"_a, "serialized_credits"_a, "processors"_a);

  nb::class_<Shape>(m, "Shape", "What never changes: routers, channels, interfaces, routes and timing rules.")
      .def_static("make", &make_shape, "rules"_a, "coordinates"_a, "sizes"_a, "node_router"_a)
      .def("add_channel",
           [](Shape& shape, const nb::dict& spec) { return shape.add_channel(channel_of(spec), nb::cast<std::string>(spec["name"])); })
      .def("add_injection_port", [](Shape& shape, int node, int vnet, const nb::dict& to,
                                    const nb::dict& from) { shape.add_injection_port(node, vnet, channel_of(to), channel_of(from)); })
      .def("set_ports",
           [](Shape& shape, int router, int inputs, int outputs) {
             shape.router.at(index(router)).input_ports = inputs;
             shape.router.at(index(router)).output_ports = outputs;
           })
      .def("set_spray",
           [](Shape& shape, int router, std::vector<int> channels) { shape.router.at(index(router)).spray = std::move(channels); })
      .def("set_dividers", [](Shape& shape, const std::vector<int>& of_routers) { shape.dividers = Dividers(shape, of_routers); })
      .def(
          "collapse", [](Shape& shape, int d, std::vector<int> channels) { shape.routes.dimension(d).collapse(std::move(channels)); },
          "dimension"_a, "channels"_a)
      .def(
          "use_destination_order",
          [](Shape& shape, int d, std::vector<int> destination_order) {
            shape.routes.dimension(d).use_destination_order(std::move(destination_order));
          },
          "dimension"_a, "turns"_a)
      .def(
          "name_ways",
          [](Shape& shape, int d, std::vector<std::vector<int>> channels) { shape.routes.dimension(d).name_ways(std::move(channels)); },
          "dimension"_a, "channels"_a)
      .def_prop_ro("expanded_routes_are_whole", [](const Shape& shape) { return shape.routes.expanded_routes_are_whole(); })
      .def("make_routes", &Shape::make_routes)
      .def_prop_ro("vc_classes", &Shape::vc_classes)
      .def("finish", &Shape::finish, "vcs"_a)
      .def("hops", &hops_between, "source"_a, "destination"_a, "vnet"_a)
      .def_prop_ro("channels", &Shape::channels);

  nb::class_<VnetChoice>(m, "VnetChoice", "Which virtual network carries a message: declared once, when a network is built.")
      .def_static("single", &VnetChoice::single)
      .def_static("by_last_dimension", &VnetChoice::by_last_dimension, "dimensions"_a)
      .def_static("by_queue", &VnetChoice::by_queue, "vnet_of_queue"_a)
      .def(
          "vnet_of",
          [](const VnetChoice& choice, int source, int destination, std::optional<int> queue) -> std::optional<int> {
            const int vnet = choice.vnet_of(source, destination, queue.value_or(-1));
            return vnet < 0 ? std::nullopt : std::optional<int>(vnet);
          },
          "source"_a, "destination"_a, "queue"_a.none() = nb::none(), "None where the rule names none.");

  auto core = nb::class_<MessageNetwork>(m, "MessageNetwork", "Messages on their way. Times in picoseconds.");
  add_core_functions(core)
      .def("wake_senders", &MessageNetwork::wake_senders)
      .def("check", &MessageNetwork::check)
      .def_prop_ro("clock_ps", &MessageNetwork::clock_ps)
      .def_prop_ro("shared_windows", &MessageNetwork::shared_windows)
      .def_prop_ro("domains", &MessageNetwork::domains)
      .def("statistics", &statistics);

  nb::class_<Network, MessageNetwork>(m, "Network", "Every router of a platform, in domains that share nothing.")
      .def(nb::init<int, int, VnetChoice, std::int64_t, bool>(), "npus"_a, "vnets"_a, "vnet_choice"_a, "clock_ps"_a, "representatives"_a)
      .def("add_domain",
           [](Network& network, const std::shared_ptr<Shape>& shape, const std::vector<int>& npus) { network.add_domain(shape, npus); })
      .def("dependencies", &dependencies_of, "domain"_a);

  nb::class_<QuotientNetwork, MessageNetwork>(m, "QuotientNetwork",
                                              "One NPU for all that automorphisms take to it, as long as they do the same.")
      .def(
          "__init__",
          [](QuotientNetwork* created, const std::shared_ptr<Shape>& shape, std::vector<int> sizes, const std::vector<bool>& collapsed,
             std::vector<bool> exclusive_or_too, VnetChoice vnet_choice, std::int64_t clock_ps, const nb::object& make) {
            Automorphisms automorphisms(std::move(sizes), collapsed, std::move(exclusive_or_too));
            new (created) QuotientNetwork(shape, std::move(automorphisms), std::move(vnet_choice), clock_ps, maker_of(make));
          },
          "shape"_a, "sizes"_a, "collapsed"_a, "exclusive_or_too"_a, "vnet_choice"_a, "clock_ps"_a, "make"_a)
      .def_prop_ro("collapsed",
                   [](const QuotientNetwork& network) -> std::optional<std::vector<bool>> {
                     const Automorphisms* const by = network.automorphisms();
                     return by == nullptr ? std::nullopt : std::optional(by->collapsed());
                   })
      .def_prop_ro("exclusive_or", [](const QuotientNetwork& network) -> std::optional<std::vector<bool>> {
        const Automorphisms* const by = network.automorphisms();
        return by == nullptr ? std::nullopt : std::optional(by->exclusive_or());
      });

  m.def("run_traffic", &run_traffic, "shape"_a, "how"_a, "rate"_a, "target"_a, "tell"_a.none(),
        "Drive a network with random packets; returns sums by measured period. `tell` hears now and then which cycle is reached.");
}
