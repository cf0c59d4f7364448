// The Python module astra_sim_network_analytical._core: the analytical network as a network function table.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <astra_sim/network.h>

#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <utility>
#include <vector>

#include "formula.hpp"

namespace nb = nanobind;
using analytical::Dimension;
using analytical::Formula;

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
      const auto& heap = static_cast<Network*>(self)->under_way;
      return heap.empty() ? ASTRA_NEVER : heap.top().first;
    };
    table.error = [](void*) { return "a message has no delay that can be simulated"; };
  }

  int inject(std::int64_t time, const astra_message* messages, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t delay = formula.delay(messages[i].source, messages[i].destination, messages[i].bytes);
      if (delay < 0 || delay > ASTRA_NEVER - 1 - time) return -1;
      under_way.emplace(time + delay, messages[i].number);
    }
    return 0;
  }

  int advance(std::int64_t until, std::int64_t* time, const std::uint64_t** numbers, std::size_t* count) {
    arrived.clear();
    if (!under_way.empty() && under_way.top().first <= until) {
      *time = under_way.top().first;
      while (!under_way.empty() && under_way.top().first == *time) {
        arrived.push_back(under_way.top().second);
        under_way.pop();
      }
    }
    *numbers = arrived.data();
    *count = arrived.size();
    return 0;
  }

  using Arrival = std::pair<std::int64_t, std::uint64_t>;

  Formula formula;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> under_way;
  std::vector<std::uint64_t> arrived;
  astra_network table{};
};

using Row = std::tuple<std::int32_t, std::vector<std::int32_t>, double, double, double, double, double, double, double>;

nb::capsule delay_table(const std::vector<Row>& rows, bool whole_ns) {
  std::vector<Dimension> dimensions;
  std::int64_t npus = 1;
  for (const auto& [size, hops, bandwidth, link, nic, router, memory_latency, memory_bandwidth, memory_scale] : rows) {
    const auto entries = static_cast<std::size_t>(size);
    if (size < 1 || (hops.size() != entries && hops.size() != entries * entries)) throw std::invalid_argument("hops that do not fit a dimension");
    npus *= size;
    if (npus > INT32_MAX) throw std::invalid_argument("too many NPUs");
    dimensions.push_back({size, hops, bandwidth, link, nic, router, memory_latency, memory_bandwidth, memory_scale});
  }
  auto network = std::make_unique<Network>(Formula(std::move(dimensions), whole_ns));
  astra_network* table = &network->table;
  nb::capsule capsule(table, ASTRA_NETWORK_CAPSULE,
                      [](void* pointer) noexcept { delete static_cast<Network*>(static_cast<astra_network*>(pointer)->state); });
  network.release();
  return capsule;
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The analytical network as a network function table.";
  module.def("delay_table", &delay_table, nb::arg("dimensions"), nb::arg("whole_ns"),
             "A capsule with a new table. Of each dimension: size, hops, bandwidth, latencies of link, NIC and router, memory latency, bandwidth, scale.");
}
