// A network of version 0.1.0 in C++: one bus carries all messages, one after another. It fills version 1 of the function table.
#include <Python.h>
#include <astra_sim/network.h>

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
  std::uint64_t arrived = 0;
  astra_statistic figures[1] = {};
  astra_network table = {};
};

int inject(void* state, std::int64_t time, const astra_message* messages, std::size_t count) {
  auto& bus = *static_cast<Bus*>(state);
  for (std::size_t i = 0; i < count; ++i) {
    const auto transfer = static_cast<std::int64_t>(static_cast<double>(messages[i].bytes) * bus.ps_per_byte);
    bus.free_at = std::max(bus.free_at, time) + transfer;
    bus.busy += transfer;
    bus.under_way.emplace_back(bus.free_at + bus.latency, messages[i].number);
  }
  return 0;
}

int advance(void* state, std::int64_t until, std::int64_t* time, const std::uint64_t** numbers, std::size_t* count) {
  auto& bus = *static_cast<Bus*>(state);
  *count = !bus.under_way.empty() && bus.under_way.front().first <= until;
  if (*count == 0) return 0;
  *time = bus.under_way.front().first;
  bus.arrived = bus.under_way.front().second;
  bus.under_way.pop_front();
  *numbers = &bus.arrived;
  return 0;
}

std::int64_t next_event(void* state) {
  const auto& bus = *static_cast<Bus*>(state);
  return bus.under_way.empty() ? ASTRA_NEVER : bus.under_way.front().first;
}

std::size_t statistics(void* state, const astra_statistic** figures) {
  auto& bus = *static_cast<Bus*>(state);
  bus.figures[0] = {"busy_ns", static_cast<double>(bus.busy) / 1000};
  *figures = bus.figures;
  return 1;
}

void free_table(PyObject* capsule) {
  delete static_cast<Bus*>(static_cast<astra_network*>(PyCapsule_GetPointer(capsule, ASTRA_NETWORK_CAPSULE))->state);
}

}  // namespace

extern "C" PyObject* astra_before_make_table(double ps_per_byte, std::int64_t latency_ps) {
  auto* bus = new Bus{ps_per_byte, latency_ps};
  bus->table = {ASTRA_NETWORK_VERSION, sizeof(astra_network), bus, nullptr, inject, advance, next_event, statistics, nullptr};
  return PyCapsule_New(&bus->table, ASTRA_NETWORK_CAPSULE, free_table);
}
