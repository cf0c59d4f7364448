// A network for astra in C++: one bus carries all messages, one after another.
#include <astra_sim/network.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace {

struct Bus {
  double ps_per_byte;
  std::int64_t latency, free_at = 0, busy = 0;                   // picoseconds
  std::deque<std::pair<std::int64_t, std::uint64_t>> under_way;  // arrival, number; in order
  astra_delivery arrived = {};
  astra_statistic figures[1] = {};
  astra_network_v2 table = {};
};

// Messages that are sent at `time`.
int inject(void* state, std::int64_t time, const astra_message_v2* messages, std::size_t count) {
  auto& bus = *static_cast<Bus*>(state);
  for (std::size_t i = 0; i < count; ++i) {
    const auto transfer = static_cast<std::int64_t>(static_cast<double>(messages[i].bytes) * bus.ps_per_byte);
    bus.free_at = std::max(bus.free_at, time) + transfer;
    bus.busy += transfer;
    bus.under_way.emplace_back(bus.free_at + bus.latency, messages[i].number);
  }
  return 0;
}

// The next arrival, if it is not after `until`; count 0: none.
int advance(void* state, std::int64_t until, std::int64_t* time, const astra_delivery** deliveries, std::size_t* count) {
  auto& bus = *static_cast<Bus*>(state);
  *count = !bus.under_way.empty() && bus.under_way.front().first <= until;
  if (*count == 0) return 0;
  *time = bus.under_way.front().first;
  bus.arrived = {bus.under_way.front().second, ASTRA_ARRIVED, 0};
  bus.under_way.pop_front();
  *deliveries = &bus.arrived;
  return 0;
}

std::size_t statistics(void* state, const astra_statistic** figures) {
  auto& bus = *static_cast<Bus*>(state);
  bus.figures[0] = {"busy_ns", static_cast<double>(bus.busy) / 1000};
  *figures = bus.figures;
  return 1;
}

}  // namespace

NB_MODULE(_network, module) {
  module.def("make_table", [](double ps_per_byte, std::int64_t latency_ps) {
    auto* bus = new Bus{ps_per_byte, latency_ps};
    bus->table.version = ASTRA_NETWORK_VERSION_2;
    bus->table.size = sizeof(astra_network_v2);
    bus->table.state = bus;
    bus->table.inject = inject;
    bus->table.advance = advance;
    bus->table.statistics = statistics;
    return nanobind::capsule(&bus->table, ASTRA_NETWORK_CAPSULE_V2,
                             [](void* table) noexcept { delete static_cast<Bus*>(static_cast<astra_network_v2*>(table)->state); });
  });
}
