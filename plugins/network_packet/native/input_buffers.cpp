#include "input_buffers.hpp"

#include <algorithm>

namespace astra::packet {

InputBuffers::InputBuffers(const Shape& shape, const Clock& clock, Channels& channels, Statistics& statistics)
    : shape_(shape), clock_(clock), channels_(channels), statistics_(statistics), rules_(shape.rules), links_(shape.link) {
  vcs_.resize(index(shape.all_vcs));
  for (int c = 0; c < shape.channels(); ++c) {
    for (int number = 0; number < shape.vc_count(c); ++number) {
      vc(c, number).channel = c;
      vc(c, number).number = narrow<std::int16_t>(number);
    }
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
      if (shape_->rules.wait_for_tail_credit && has_bit(channels_->idle(c), number)) continue;  // its last packet has left
      const InputVc& from = vc(c, number);
      if (from.state == VcState::idle) continue;
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
}

void InputBuffers::turn(int c, const VcTurn& turn) {
  InputVc* const first = &vc(c, 0);
  std::rotate(first, first + turn.first, first + turn.count);
  for (int number = 0; number < turn.count; ++number) {
    InputVc& vc = first[number];
    vc.number = narrow<std::int16_t>(number);
    for (std::uint32_t i = 0; i < vc.buffer.size(); ++i) vc.buffer[i].vc = narrow<std::uint16_t>(number);
  }
}

}  // namespace astra::packet
