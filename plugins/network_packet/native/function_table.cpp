#include "function_table.hpp"

#include <string>

namespace astra::packet {

namespace {

struct State {
  std::shared_ptr<MessageNetwork> network;
  std::string error;
  std::vector<astra_statistic> figures;
};

State& state_of(void* pointer) { return *static_cast<State*>(pointer); }

int inject(void* pointer, std::int64_t time, const astra_message* messages, std::size_t count) {
  State& state = state_of(pointer);
  return guarded(state.error, [&] {
    for (std::size_t i = 0; i < count; ++i) {
      const astra_message& m = messages[i];
      state.network->inject(time, m.number, m.source, m.destination, m.bytes, m.queue);
    }
  });
}

int advance(void* pointer, std::int64_t until, std::int64_t* time, const std::uint64_t** numbers, std::size_t* count) {
  State& state = state_of(pointer);
  return guarded(state.error, [&] {
    *count = 0;
    if (!state.network->advance(until)) return;
    *time = state.network->time;
    *numbers = state.network->arrived.data();
    *count = state.network->arrived.size();
  });
}

std::int64_t next_event(void* pointer) { return state_of(pointer).network->next_event(); }

std::size_t statistics(void* pointer, const astra_statistic** figures) {
  State& state = state_of(pointer);
  double packets = 0;
  double flits = 0;
  double flit_hops = 0;
  for (std::size_t i = 0; i < state.network->domains(); ++i) {
    const Statistics figures = state.network->statistics(i);
    packets += real(figures.total(Statistics::kPackets));
    flits += real(figures.total(Statistics::kFlits));
    flit_hops += real(figures.total(Statistics::kFlitHops));
  }
  state.figures = {{"packets", packets}, {"flits", flits}, {"flit_hops", flit_hops}};
  *figures = state.figures.data();
  return state.figures.size();
}

const char* error(void* pointer) { return state_of(pointer).error.c_str(); }

}  // namespace

astra_network* make_table(std::shared_ptr<MessageNetwork> network) {
  auto table = std::make_unique<astra_network>();
  table->version = ASTRA_NETWORK_VERSION;
  table->size = sizeof(astra_network);
  table->delay = nullptr;
  table->inject = inject;
  table->advance = advance;
  table->next_event = next_event;
  table->statistics = statistics;
  table->error = error;
  table->state = new State{std::move(network), "", {}};
  return table.release();
}

void destroy_table(astra_network* table) {
  delete static_cast<State*>(table->state);
  delete table;
}

}  // namespace astra::packet
