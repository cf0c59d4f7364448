// The Python module astra_sim_network_analytical._core: the analytical networks as network function tables.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <astra_sim/core_class.hpp>
#include <astra_sim/radix_queue.hpp>
#include <memory>
#include <new>
#include <optional>
#include <span>
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
using astra::analytical::OwnerWaits;
using astra::analytical::Rounding;
using astra::analytical::Shape;
using astra::fabric::DestinationRoutes;

namespace {

constexpr const char* kNoDelay = "a message has no delay that can be simulated";

// A network without contention: every message arrives after its delay.
class DelayNetwork {
 public:
  explicit DelayNetwork(Formula formula) : formula_(std::move(formula)) {}

  std::int64_t delay(std::int32_t source, std::int32_t destination, std::int64_t bytes) const {
    return formula_.delay(source, destination, bytes);
  }

  void inject(std::int64_t time, std::span<const astra_message> messages) {
    for (const astra_message& each : messages) {
      const std::int64_t delay = formula_.delay(each.source, each.destination, each.bytes);
      if (delay < 0 || delay > ASTRA_NEVER - 1 - time) throw std::invalid_argument(kNoDelay);
      under_way_.push(time + delay, each.number);
    }
  }

  bool advance(std::int64_t until) {
    delivered_.clear();
    if (under_way_.empty() || under_way_.next_time() > until) return false;
    delivered_at_ = under_way_.next_time();
    under_way_.take([this](const Arrival& arrival) { delivered_.push_back(arrival.number); });
    if (!std::is_sorted(delivered_.begin(), delivered_.end())) std::sort(delivered_.begin(), delivered_.end());
    return true;
  }

  std::int64_t next_event() { return under_way_.empty() ? ASTRA_NEVER : under_way_.next_time(); }
  std::int64_t delivered_at() const { return delivered_at_; }
  const std::vector<std::uint64_t>& delivered() const { return delivered_; }

 private:
  struct Arrival {
    std::int64_t time;
    std::uint64_t number;
  };

  Formula formula_;
  astra::RadixQueue<Arrival> under_way_;
  std::int64_t delivered_at_ = 0;
  std::vector<std::uint64_t> delivered_;
};

Rounding rounding_of(int number) {
  if (number < 0 || number > 2) throw std::invalid_argument("a rounding that is not known");
  return static_cast<Rounding>(number);
}

using Row = std::tuple<std::int32_t, std::vector<std::int32_t>, double, double, double, double, double, double, double>;

nb::object delay_table(const std::vector<Row>& rows, int rounding, bool lowest) {
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
  auto network = std::make_shared<DelayNetwork>(Formula(std::move(dimensions), rounding_of(rounding), lowest));
  return nb::steal(astra::TableOwner<DelayNetwork>::capsule_of(std::move(network)));
}

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

void make_fifo(Fifo* place, const std::vector<Links>& rows, int rounding, bool cut_through, std::vector<std::uint8_t> owners,
               std::size_t owner_count) {
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
  for (const std::uint8_t owner : owners) {
    if (owner >= owner_count) throw std::invalid_argument("an owner that is not counted");
  }
  if (owner_count && owners.size() < static_cast<std::size_t>(npus)) throw std::invalid_argument("NPUs without an owner");
  new (place) Fifo(LinkMap(std::move(dimensions)), rounding_of(rounding), cut_through, OwnerWaits(std::move(owners), owner_count));
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The analytical network as a network function table.";
  module.def("delay_table", &delay_table, nb::arg("dimensions"), nb::arg("rounding"), nb::arg("lowest"),
             "A capsule with a new table. Of each dimension: size, hops, bandwidth, latencies of link, NIC and router, memory latency, "
             "bandwidth, scale.");
  auto core = nb::class_<Fifo>(module, "Fifo", "Links that carry one message after another.");
  astra::add_core_functions(core)
      .def("__init__", &make_fifo, nb::arg("dimensions"), nb::arg("rounding"), nb::arg("cut_through"), nb::arg("owners"),
           nb::arg("owner_count"), "Of each dimension the fields of DimensionLinks; the owner of each NPU, if loads are counted by owner.")
      .def_prop_ro("now", &Fifo::now, "When the last thing happened (ps).")
      .def("figures", &Fifo::figures, "Number, messages, bytes, busy ps and largest queue of all links that carried something.")
      .def("owner_figures", &Fifo::owner_figures,
           "Number, and bytes, busy ps and waits (ps) by owner, of all links that carried something.")
      .def("totals", &Fifo::totals, "Bytes, busy ns and largest queue of the links of each dimension.");
}
