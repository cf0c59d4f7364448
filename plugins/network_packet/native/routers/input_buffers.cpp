#include "routers/input_buffers.hpp"

#include <algorithm>
#include <bit>

namespace astra::packet {

namespace {

constexpr Cycle kFurthest = 64;  // cycles on a straight way; for longer ones there are too many sets

}  // namespace

InputBuffers::InputBuffers(const Shape& shape, Clock& clock, FlitChannels& flit_channels, CreditChannels& credits, Statistics& statistics)
    : shape_(shape),
      clock_(clock),
      flit_channels_(flit_channels),
      credits_(credits),
      statistics_(statistics),
      rules_(shape.rules),
      links_(shape.link),
      vcs_(index(shape.all_vcs)),
      entries_(shape.link.size()) {
  for (int r = 0; r < shape.routers(); ++r) {
    const int vcs = at(shape.vc_base, r + 1) - at(shape.vc_base, r);
    words_.push_back(words_.back() + index(vcs + 63) / 64);
  }
  Cycle furthest = -1;
  for (int c = 0; c < shape.channels(); ++c) {
    const Link& link = at(links_, c);
    for (int number = 0; number < link.vcs; ++number) {
      vc(c, number).channel = c;
      vc(c, number).number = narrow<std::int16_t>(number);
      vc(c, number).input = link.sink_place;
    }
    if (!has_sets(c)) continue;
    const int local = link.vc_base - at(shape.vc_base, link.sink);
    const int word = narrow<int>(at(words_, link.sink)) + local / 64;
    Entry& entry = at(entries_, c);
    entry = {link.vc_base, word, link.sink, -1, narrow<std::uint8_t>(local % 64)};
    if (!goes_straight(c)) continue;
    entry.delay = narrow<std::int16_t>(link.delay);
    furthest = std::max<Cycle>(furthest, link.delay + std::max(1, shape.rules.switch_traversal()));
  }
  if (furthest < 0) {  // all is queued
    std::fill(words_.begin(), words_.end(), 0);
    std::fill(entries_.begin(), entries_.end(), Entry{});
  }
  slots_ = std::bit_ceil(index(furthest + 1));
  arrivals_.resize(words_.back() * slots_);
}

// Flits that come to a router in one cycle are routed in order of channels; so these must be in order of inputs.
bool InputBuffers::has_sets(int c) const {
  const int sink = at(links_, c).sink;
  if (!shape_->is_router(sink) || clock_->units_differ() || rules_->serialized_credits) return false;
  const std::vector<int>& inputs = at(shape_->router, sink).inputs;
  return std::is_sorted(inputs.begin(), inputs.end());
}

// Whether only the router at its end reads a channel that has sets.
bool InputBuffers::goes_straight(int c) const {
  const Link& link = at(links_, c);
  return clock_->tile_of(link.source) == clock_->tile_of(link.sink) && link.delay >= 0 && link.delay < kFurthest;
}

void InputBuffers::mark_arrivals(const InputVc& vc) {
  const Entry& entry = at(entries_, vc.channel);
  const int bit = entry.bit + vc.number;
  for (Cycle slot = 0; slot < wide(slots_); ++slot) clear_bit(arrivals_at(slot) + entry.word, bit);
  for (std::uint32_t i = narrow<std::uint32_t>(vc.arrived); i < vc.buffer.size(); ++i) {
    set_bit(arrivals_at(vc.buffer[i].time) + entry.word, bit);
  }
}

bool InputBuffers::any_flits() const {
  return std::any_of(vcs_.begin(), vcs_.end(), [](const InputVc& vc) { return !vc.buffer.empty(); });
}

bool InputBuffers::in_order(int c, int number) const {
  const RingBuffer<Flit>& buffer = vc(c, number).buffer;
  for (std::uint32_t i = 1; i < buffer.size(); ++i) {
    const bool follows = buffer[i].packet == buffer[i - 1].packet;
    if (follows == buffer[i].head || follows == buffer[i - 1].tail) return false;
  }
  return true;
}

void InputBuffers::snapshot(Snapshot& snapshot, const Messages& messages) const {
  const Cycle now = snapshot.now();
  const bool staged = shape_->rules.allocation == Allocation::staged;
  for (int c = 0; c < shape_->channels() && snapshot.same(); ++c) {
    const VcTurn& turn = snapshot.turn(c);
    for (int place = 0; place < turn.count; ++place) {
      const int number = turn.forth(place);
      if (shape_->rules.waits_for_tail_credit() && has_bit(credits_->idle(c), number)) continue;  // its last packet has left
      const InputVc& from = vc(c, number);
      if (from.state == VcState::idle && from.buffer.empty()) continue;
      snapshot.put(shape_->vc_index(c, place) | wide(from.state) << 33);
      snapshot.put(from.out | wide(from.out_vc) << 32);
      snapshot.put(staged ? (from.state == VcState::allocating ? std::max<Cycle>(from.since - now, 0) : 0) : from.since - now);
      snapshot.put(from.buffer.size());
      for (std::uint32_t i = 0; i < from.buffer.size(); ++i) messages.snapshot_flit(snapshot, from.buffer[i], turn);
    }
  }
}

void InputBuffers::shift(Cycle later) {
  for (InputVc& vc : vcs_) {
    vc.since += later;
    for (std::uint32_t i = 0; i < vc.buffer.size(); ++i) vc.buffer[i].time += later;
  }
  std::rotate(arrivals_.begin(), arrivals_.end() - wide((index(later) & (slots_ - 1)) * words_.back()), arrivals_.end());
}

void InputBuffers::turn(int c, const VcTurn& turn) {
  InputVc* const first = &vc(c, 0);
  std::rotate(first, first + turn.first, first + turn.count);
  for (int number = 0; number < turn.count; ++number) {
    InputVc& vc = first[number];
    vc.number = narrow<std::int16_t>(number);
    for (std::uint32_t i = 0; i < vc.buffer.size(); ++i) vc.buffer[i].vc = narrow<std::uint16_t>(number);
    if (at(entries_, c).delay >= 0) mark_arrivals(vc);
  }
}

}  // namespace astra::packet
