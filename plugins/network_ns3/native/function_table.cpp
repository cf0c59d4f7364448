// SPDX-License-Identifier: GPL-2.0-only
#include "function_table.hpp"

#include <string>
#include <utility>
#include <vector>

namespace astra::tcp {
namespace {

struct State {
  std::shared_ptr<Network> network;
  std::string error;
  std::vector<astra_delivery> deliveries;
};

State& state_of(void* pointer) { return *static_cast<State*>(pointer); }

int inject(void* pointer, std::int64_t time, const astra_message_v2* messages, std::size_t count) {
  State& state = state_of(pointer);
  return guarded(state.error, [&] {
    for (std::size_t place = 0; place < count; ++place) {
      const astra_message_v2& each = messages[place];
      state.network->inject(time, {each.number, static_cast<std::uint32_t>(each.source), static_cast<std::uint32_t>(each.destination),
                                   each.bytes, each.traffic_class});
    }
  });
}

int advance(void* pointer, std::int64_t until, std::int64_t* time, const astra_delivery** deliveries, std::size_t* count) {
  State& state = state_of(pointer);
  return guarded(state.error, [&] {
    *count = 0;
    if (!state.network->advance(until)) return;
    state.deliveries.clear();
    for (const Delivery& each : state.network->delivered()) {
      state.deliveries.push_back({each.number, each.acknowledged ? ASTRA_SENT : ASTRA_ARRIVED, 0});
    }
    *time = state.network->time();
    *deliveries = state.deliveries.data();
    *count = state.deliveries.size();
  });
}

const char* error(void* pointer) { return state_of(pointer).error.c_str(); }

}  // namespace

astra_network_v2* make_table(std::shared_ptr<Network> network) {
  auto table = std::make_unique<astra_network_v2>();
  table->version = ASTRA_NETWORK_VERSION_2;
  table->size = sizeof(astra_network_v2);
  table->tells_sent = 1;
  table->inject = inject;
  table->advance = advance;
  table->error = error;
  table->state = new State{std::move(network), "", {}};
  return table.release();
}

void destroy_table(astra_network_v2* table) {
  delete static_cast<State*>(table->state);
  delete table;
}

}  // namespace astra::tcp
