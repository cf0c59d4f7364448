// The Python module astra_sim_network_analytical._core: the analytical networks as network function tables.
#include <astra_sim/network.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <astra_sim/radix_queue.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fifo.hpp"
#include "formula.hpp"

namespace nb = nanobind;
using astra::analytical::Dimension;
using astra::analytical::DimensionLinks;
using astra::analytical::Fifo;
using astra::analytical::Formula;
using astra::analytical::LinkMap;
using astra::analytical::Rounding;
using astra::analytical::Shape;
using astra::fabric::DestinationRoutes;

namespace {

// A network without contention: every message arrives after its delay.
struct Network {
  explicit Network(Formula made) : formula(std::move(made)) {
    table.version = ASTRA_NETWORK_VERSION;
    table.size = sizeof(table);
    table.state = this;
    table.delay = [](void* self, std::int32_t source, std::int32_t destination, std::int64_t bytes) {
      return static_cast<Network*>(self)->formula.delay(source, destination, bytes);
    };
    table.inject = [](void* self, std::int64_t time, const astra_message* messages, std::size_t count) {
      return static_cast<Network*>(self)->inject(time, messages, count);
    };
    table.advance = [](void* self, std::int64_t until, std::int64_t* time, const std::uint64_t** numbers, std::size_t* count) {
      return static_cast<Network*>(self)->advance(until, time, numbers, count);
    };
    table.next_event = [](void* self) {
      auto& queue = static_cast<Network*>(self)->under_way;
      return queue.empty() ? ASTRA_NEVER : queue.next_time();
    };
    table.error = [](void*) { return "a message has no delay that can be simulated"; };
  }

  int inject(std::int64_t time, const astra_message* messages, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t delay = formula.delay(messages[i].source, messages[i].destination, messages[i].bytes);
      if (delay < 0 || delay > ASTRA_NEVER - 1 - time) return -1;
      under_way.push(time + delay, messages[i].number);
    }
    return 0;
  }

  int advance(std::int64_t until, std::int64_t* time, const std::uint64_t** numbers, std::size_t* count) {
    arrived.clear();
    if (!under_way.empty() && under_way.next_time() <= until) {
      *time = under_way.next_time();
      under_way.take([this](const Arrival& arrival) { arrived.push_back(arrival.number); });
      if (!std::is_sorted(arrived.begin(), arrived.end())) std::sort(arrived.begin(), arrived.end());
    }
    *numbers = arrived.data();
    *count = arrived.size();
    return 0;
  }

  struct Arrival {
    std::int64_t time;
    std::uint64_t number;
  };

  Formula formula;
  astra::RadixQueue<Arrival> under_way;
  std::vector<std::uint64_t> arrived;
  astra_network table{};
};

Rounding rounding_of(int number) {
  if (number < 0 || number > 2) throw std::invalid_argument("a rounding that is not known");
  return static_cast<Rounding>(number);
}

// A capsule that owns a network, which has a table.
template <typename Table, typename Owner>
nb::capsule capsule_of(std::unique_ptr<Owner> network, const char* name) {
  nb::capsule capsule(&network->table, name,
                      [](void* pointer) noexcept { delete static_cast<Owner*>(static_cast<Table*>(pointer)->state); });
  network.release();
  return capsule;
}

using Row = std::tuple<std::int32_t, std::vector<std::int32_t>, double, double, double, double, double, double, double>;

nb::capsule delay_table(const std::vector<Row>& rows, int rounding, bool lowest) {
  std::vector<Dimension> dimensions;
  std::int64_t npus = 1;
  for (const auto& [size, hops, bandwidth, link, nic, router, memory_latency, memory_bandwidth, memory_scale] : rows) {
    const auto entries = static_cast<std::size_t>(size);
    if (size < 1 || (hops.size() != entries && hops.size() != entries * entries))
      throw std::invalid_argument("hops that do not fit a dimension");
    npus *= size;
    if (npus > INT32_MAX) throw std::invalid_argument("too many NPUs");
    dimensions.push_back({size, hops, bandwidth, link, nic, router, memory_latency, memory_bandwidth, memory_scale});
  }
  auto network = std::make_unique<Network>(Formula(std::move(dimensions), rounding_of(rounding), lowest));
  return capsule_of<astra_network>(std::move(network), ASTRA_NETWORK_CAPSULE);
}

// A network in which messages wait for each other.
struct FifoNetwork {
  explicit FifoNetwork(Fifo made) : fifo(std::move(made)) {
    table.version = ASTRA_NETWORK_VERSION_2;
    table.size = sizeof(table);
    table.state = this;
    table.inject = [](void* self, std::int64_t time, const astra_message_v2* messages, std::size_t count) {
      return static_cast<FifoNetwork*>(self)->fifo.inject(time, messages, count);
    };
    table.advance = [](void* self, std::int64_t until, std::int64_t* time, const astra_delivery** deliveries, std::size_t* count) {
      return static_cast<FifoNetwork*>(self)->fifo.advance(until, time, deliveries, count);
    };
    table.error = [](void* self) { return static_cast<FifoNetwork*>(self)->fifo.error(); };
  }

  Fifo fifo;
  astra_network_v2 table{};
};

// A graph that lists its links: nodes, source, target and cost of links, numbers of destinations, and links that are named.
using Numbers = std::vector<int>;
using Graph = std::tuple<int, std::vector<std::tuple<int, int, int>>, Numbers, std::vector<Numbers>>;
using Links = std::tuple<int, std::int32_t, std::int32_t, std::vector<double>, std::vector<double>, double, double, std::optional<Graph>>;

std::unique_ptr<DestinationRoutes> routes_of(std::int32_t size, const Graph& graph) {
  const auto& [nodes, ends, numbers, named] = graph;
  std::vector<astra::fabric::Link> links;
  for (const auto& [source, target, cost] : ends) {
    if (std::min(source, target) < 0 || std::max(source, target) >= nodes || cost < 1)
      throw std::invalid_argument("links that do not fit a dimension");
    links.push_back({source, target, cost});
  }
  return std::make_unique<DestinationRoutes>(nodes, size, links, numbers, named);
}

nb::capsule fifo_table(const std::vector<Links>& rows, int rounding, bool cut_through) {
  std::vector<DimensionLinks> dimensions;
  std::int64_t npus = 1;
  for (const auto& [shape, size, links, bandwidth, latency, nic, router, graph] : rows) {
    if (size < 1 || shape < 0 || shape > 3 || bandwidth.empty() || latency.empty() || graph.has_value() != (shape == 3))
      throw std::invalid_argument("links that do not fit a dimension");
    npus *= size;
    if (npus > INT32_MAX) throw std::invalid_argument("too many NPUs");
    auto routes = graph ? routes_of(size, *graph) : nullptr;
    dimensions.push_back({static_cast<Shape>(shape), size, links, bandwidth, latency, nic, router, std::move(routes)});
  }
  auto network = std::make_unique<FifoNetwork>(Fifo(LinkMap(std::move(dimensions)), rounding_of(rounding), cut_through));
  return capsule_of<astra_network_v2>(std::move(network), ASTRA_NETWORK_CAPSULE_V2);
}

const Fifo& fifo_of(const nb::capsule& capsule) {
  return static_cast<FifoNetwork*>(static_cast<astra_network_v2*>(capsule.data())->state)->fifo;
}

// When the last thing happened, and the figures of all links that carried something.
std::pair<std::int64_t, std::vector<Fifo::Figures>> fifo_figures(const nb::capsule& capsule) {
  const Fifo& fifo = fifo_of(capsule);
  return {fifo.now(), fifo.figures()};
}

// When the last thing happened, and what the links of each dimension carried.
std::pair<std::int64_t, std::vector<Fifo::Totals>> fifo_totals(const nb::capsule& capsule) {
  const Fifo& fifo = fifo_of(capsule);
  return {fifo.now(), fifo.totals()};
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The analytical network as a network function table.";
  module.def("delay_table", &delay_table, nb::arg("dimensions"), nb::arg("rounding"), nb::arg("lowest"),
             "A capsule with a new table. Of each dimension: size, hops, bandwidth, latencies of link, NIC and router, memory latency, "
             "bandwidth, scale.");
  module.def("fifo_table", &fifo_table, nb::arg("dimensions"), nb::arg("rounding"), nb::arg("cut_through"),
             "A capsule with a new table of links that carry one message after another. Of each dimension the fields of DimensionLinks.");
  module.def(
      "fifo_figures", &fifo_figures, nb::arg("capsule"),
      "Of a table made by fifo_table: when the last thing happened (ps), and number, messages, bytes, busy ps and largest queue of links.");
  module.def("fifo_totals", &fifo_totals, nb::arg("capsule"),
             "Of a table made by fifo_table: when the last thing happened (ps), and bytes, busy ps and largest queue of the links of each "
             "dimension.");
}
