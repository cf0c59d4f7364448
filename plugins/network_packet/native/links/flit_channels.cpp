#include "links/flit_channels.hpp"

namespace astra::packet {

FlitChannels::FlitChannels(const Shape& shape, Clock& clock, Statistics& statistics)
    : clock_(clock), statistics_(statistics), links_(shape.link), channels_(shape.link.size()), wires_(shape) {}

void FlitChannels::employ(int threads) {
  handed_.employ(threads);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    channels_[c].joins_threads = clock_->thread_of(links_[c].source) != clock_->thread_of(links_[c].sink);
  }
}

void FlitChannels::settle() {
  handed_.settle([this](int c, const Flit& flit) { put(c, flit); });
}

Cycle FlitChannels::narrow_arrival(int c, Cycle takes) {
  const Link& way = at(links_, c);
  const Cycle own = clock_->cycles_of(way.source, 1);
  return clock_->edge(way.sink, wires_.arrival(c, takes, own));
}

std::int64_t FlitChannels::count(int c, int vc) const {
  const RingBuffer<Flit>& flits = at(channels_, c).flits;
  std::int64_t count = 0;
  for (std::uint32_t i = 0; i < flits.size(); ++i) count += flits[i].vc == vc;
  return count;
}

void FlitChannels::snapshot(Snapshot& snapshot, const Messages& messages) const {
  for (int c = 0; c < count_of(channels_) && snapshot.same(); ++c) {
    const RingBuffer<Flit>& flits = at(channels_, c).flits;
    wires_.snapshot(snapshot, c);
    snapshot.put(flits.size());
    for (std::uint32_t i = 0; i < flits.size(); ++i) messages.snapshot_flit(snapshot, flits[i], snapshot.turn(c));
  }
}

void FlitChannels::shift(Cycle later) {
  for (Channel& channel : channels_) {
    for (std::uint32_t i = 0; i < channel.flits.size(); ++i) channel.flits[i].time += later;
  }
  wires_.shift(later);
}

void FlitChannels::turn(int c, const VcTurn& turn) {
  RingBuffer<Flit>& flits = at(channels_, c).flits;
  for (std::uint32_t i = 0; i < flits.size(); ++i) flits[i].vc = narrow<std::uint16_t>(turn.back(flits[i].vc));
}

}  // namespace astra::packet
