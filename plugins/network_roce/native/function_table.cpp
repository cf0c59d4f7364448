#include "function_table.hpp"

#include <string>
#include <utility>

#include "time.hpp"

namespace astra::roce {
namespace {

struct State {
  std::shared_ptr<Network> network;
  std::string error;
  std::vector<astra_delivery> deliveries;
  std::vector<astra_statistic> figures;
};

State& state_of(void* pointer) { return *static_cast<State*>(pointer); }

int inject(void* pointer, std::int64_t time, const astra_message_v2* messages, std::size_t count) {
  State& state = state_of(pointer);
  return guarded(state.error, [&] {
    for (std::size_t place = 0; place < count; ++place) {
      const astra_message_v2& message = messages[place];
      state.network->inject(ticks_of(time, state.network->settings()),
                            {message.number, static_cast<NodeId>(message.source), static_cast<NodeId>(message.destination), message.bytes,
                             priority_group(message.traffic_class), connection_of(state.network->settings(), message.queue, message.flow)});
    }
  });
}

int advance(void* pointer, std::int64_t until, std::int64_t* time, const astra_delivery** deliveries, std::size_t* count) {
  State& state = state_of(pointer);
  return guarded(state.error, [&] {
    *count = 0;
    Network& network = *state.network;
    if (!network.advance(until == ASTRA_NEVER ? kNever : until / picoseconds_of_tick(network.settings()))) return;
    state.deliveries.clear();
    for (const Delivery& each : network.delivered()) state.deliveries.push_back({each.number, each.sent ? ASTRA_SENT : ASTRA_ARRIVED, 0});
    *time = network.now() * picoseconds_of_tick(network.settings());
    *deliveries = state.deliveries.data();
    *count = state.deliveries.size();
  });
}

std::size_t statistics(void* pointer, const astra_statistic** figures) {
  State& state = state_of(pointer);
  state.network->settle();
  const Monitor& monitor = state.network->parts().monitor;
  state.figures = {{"packets", real(static_cast<std::int64_t>(monitor.packets))},
                   {"drops", real(static_cast<std::int64_t>(monitor.drops))},
                   {"pfc_frames", real(static_cast<std::int64_t>(monitor.pause_frames))}};
  *figures = state.figures.data();
  return state.figures.size();
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
  table->statistics = statistics;
  table->error = error;
  table->state = new State{std::move(network), "", {}, {}};
  return table.release();
}

void destroy_table(astra_network_v2* table) {
  delete static_cast<State*>(table->state);
  delete table;
}

}  // namespace astra::roce
