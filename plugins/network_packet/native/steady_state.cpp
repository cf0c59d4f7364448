#include "steady_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "domain.hpp"

namespace astra::packet {

namespace {

constexpr std::int64_t kWorthwhile = 8;  // packets a message must still have to make

// Writes a snapshot, or compares it with one.
class Writer {
 public:
  Writer(std::vector<std::int64_t>& values, bool compares, Cycle now) : values_(values), compares_(compares), now_(now) {
    if (!compares) values_.clear();
  }
  void put(std::int64_t value) {
    if (!compares_) {
      values_.push_back(value);
    } else {
      same_ = same_ && place_ < values_.size() && values_[place_] == value;
      ++place_;
    }
  }
  void time(Cycle value) { put(value - now_); }
  void future(const Span& value) {
    const bool past = value.cycles < now_ || (value.cycles == now_ && value.ps == 0);
    put(past ? 0 : value.cycles - now_);
    put(past ? 0 : value.ps);
  }
  bool same() const { return same_; }
  bool complete() const { return same_ && (!compares_ || place_ == values_.size()); }

 private:
  std::vector<std::int64_t>& values_;
  bool compares_;
  Cycle now_;
  std::size_t place_ = 0;
  bool same_ = true;
};

}  // namespace

void SteadyState::forget() {
  anchor_ = -1;
  taken_at_ = -1;
  reach_ = 4;
  seen_ = wait_ = 0;
}

// Virtual channels of a channel, counted from one of them on.
struct SteadyState::Turn {
  int first = 0;
  int count = 0;

  int back(int vc) const { return vc < first ? vc - first + count : vc - first; }
  int forth(int place) const { return place + first < count ? place + first : place + first - count; }
};

// Interfaces give packets to virtual channels round-robin. Their numbers matter where the router has a choice between them, and nowhere
// else: so they are counted from the next in turn on, or a rhythm would not show before all have had their turn.
SteadyState::Turn SteadyState::turn_of(const Domain& domain, int c) {
  const Shape& shape = domain.shape();
  const int lane = shape.link[static_cast<std::size_t>(c)].source - shape.routers();
  const int count = shape.vc_count(c);
  if (lane < 0 || !shape.rules.queue_ahead) return {0, count};
  return {domain.lanes_[static_cast<std::size_t>(lane)].pointer, count};
}

// A packet is described where its last flit is: with that, or in the interface that has not sent it yet. The other flits come before it
// on its way, which virtual channels give.
bool SteadyState::snapshot(Domain& domain, bool compares, Cycle now) {
  const Shape& shape = domain.shape();
  const bool staged = shape.rules.allocation == Allocation::staged;
  Writer writer(snapshot_, compares, now);
  auto packet = [&](std::uint32_t index) {
    const Packet& p = domain.packets_[index];
    const Message& message = domain.messages_[p.message];
    writer.put(p.message);
    writer.put(message.packets - message.unmade - p.sequence);
    writer.put(p.flits | static_cast<std::int64_t>(p.hops) << 32);
    writer.put(p.vc_class);
    writer.time(p.made);
    writer.time(p.injected);
  };
  auto flit = [&](const Flit& f, const Turn& turn) {
    writer.put((f.time - now) * (1 << 18) + (turn.back(f.vc) | (f.head ? 1 << 16 : 0) | (f.tail ? 1 << 17 : 0)));
    if (f.tail) packet(f.packet);
  };
  writer.put(now % shape.rhythm);  // routers with clocks of their own must stand at the same places between their edges
  for (int c = 0; c < shape.channels(); ++c) {
    if (!writer.same()) return false;
    const Turn turn = turn_of(domain, c);
    domain.take_credits(c, now);
    const Channel& channel = domain.channels_[static_cast<std::size_t>(c)];
    const Wires& wires = domain.wires_[static_cast<std::size_t>(c)];
    writer.future(wires.free);
    writer.future(wires.credit_free);
    writer.put(channel.sender_waits | static_cast<std::int64_t>(channel.flits.size()) << 1 |
               static_cast<std::int64_t>(channel.credits.size()) << 32);
    for (std::uint32_t i = 0; i < channel.flits.size(); ++i) flit(channel.flits[i], turn);
    for (std::uint32_t i = 0; i < channel.credits.size(); ++i) {
      writer.time(channel.credits[i].time);
      writer.put(turn.back(channel.credits[i].vc) | (channel.credits[i].frees ? 1 << 16 : 0));
    }
    if (wires.parts) wires.parts->each(now, [&](std::int64_t value) { writer.put(value); });
    for (int place = 0; place < shape.vc_count(c); ++place) {
      const int v = turn.forth(place);
      const bool idle = has_bit(domain.idle(c), v);
      // Where a packet has its virtual channel until its last credit is back, those that are idle are at rest, unless parts of credits
      // have overtaken others.
      const int credits = domain.credits_[domain.vc_index(c, v)];
      if (idle && shape.rules.wait_for_tail_credit && credits == shape.rules.buffers) continue;
      writer.put(place << 1 | idle);
      const ReceiverVc& vc = domain.receivers_[domain.vc_index(c, v)];
      writer.put(credits | static_cast<std::int64_t>(vc.state) << 33);
      if (vc.state == VcState::idle) continue;
      writer.put(vc.out | static_cast<std::int64_t>(vc.out_vc) << 32);
      writer.put(staged ? (vc.state == VcState::allocating ? std::max<Cycle>(vc.since - now, 0) : 0) : vc.since - now);
      writer.put(vc.buffer.size());
      for (std::uint32_t i = 0; i < vc.buffer.size(); ++i) flit(vc.buffer[i], turn);
    }
  }
  for (const Lane& lane : domain.lanes_) {
    const Turn turn = turn_of(domain, shape.lane[static_cast<std::size_t>(&lane - domain.lanes_.data())].out);
    writer.put(turn.back(lane.pointer));
    writer.put(lane.sent);
    writer.put((lane.worked_at == now) | (lane.made_at == now) << 1 | (lane.sent_at == now) << 2 | (lane.called_at == now) << 3);
    writer.put(lane.messages.size());
    writer.put(lane.packets.size());
    for (std::uint32_t i = 0; i < lane.messages.size(); ++i) writer.put(lane.messages[i]);
    for (std::uint32_t i = 0; i < lane.packets.size(); ++i) {
      packet(lane.packets[i]);
      writer.put(turn.back(lane.vcs[i]));
    }
  }
  for (const Message& message : domain.messages_) {
    writer.put(message.missing - message.unmade);
    writer.put(message.unmade > 0);
  }
  for (std::uint64_t word : domain.allocating_) writer.put(static_cast<std::int64_t>(word));
  for (std::size_t r = 0; r < domain.routers_.size(); ++r) {
    const RouterState& state = domain.routers_[r];
    if (!shape.router[r].spray.empty()) writer.put(state.sprayed % shape.router[r].spray.size());
    if (domain.calls_matter_ && domain.holds_flits(static_cast<int>(r))) {  // one without flits will be called before it acts
      domain.settle_calls(static_cast<int>(r), now);
      writer.time(state.call.at);
      writer.put(state.call.ahead);
      writer.put(state.ready.size());
      for (std::uint32_t i = 0; i < state.ready.size(); ++i) writer.time(state.ready[i]);
    }
    if (!staged) continue;
    writer.put(static_cast<std::int64_t>(state.random));
    for (const std::vector<int>* pointers :
         {&state.next_vc, &state.vc_pointers.of_input, &state.vc_pointers.of_output, &state.switch_pointers.of_input,
          &state.switch_pointers.of_output, &state.speculative_pointers.of_input, &state.speculative_pointers.of_output}) {
      for (int pointer : *pointers) writer.put(pointer);
    }
  }
  return writer.complete();
}

std::vector<std::int64_t> SteadyState::signature(Domain& domain, Cycle now) {
  SteadyState state;
  state.snapshot(domain, false, now);
  std::vector<std::int64_t>& found = state.snapshot_;
  for (const Lane& lane : domain.lanes_) found.push_back(lane.pointer);
  for (const RouterState& router : domain.routers_) {
    found.insert(found.end(), router.input_pointer.begin(), router.input_pointer.end());
    found.insert(found.end(), router.output_pointer.begin(), router.output_pointer.end());
  }
  return std::move(found);
}

bool SteadyState::same_pointers(const Domain& domain) const {
  std::size_t place = 0;
  for (const RouterState& state : domain.routers_) {
    for (std::size_t i = 0; i < state.input_pointer.size(); ++i, ++place) {
      if (state.input_choice[i] > taken_at_ && pointers_[place] != state.input_pointer[i]) return false;
    }
    for (std::size_t i = 0; i < state.output_pointer.size(); ++i, ++place) {
      if (state.output_choice[i] > taken_at_ && pointers_[place] != state.output_pointer[i]) return false;
    }
  }
  for (std::size_t l = 0; l < domain.lanes_.size(); ++l) {
    if (domain.lanes_[l].pointer == lane_pointers_[l]) continue;
    const Link& link = domain.link(domain.shape().lane[l].out);
    if (domain.routers_[static_cast<std::size_t>(link.sink)].input_choice[link.sink_place] > taken_at_) return false;
  }
  return true;
}

bool SteadyState::plan(const Domain& domain, Cycle now) {
  periods = std::numeric_limits<std::int64_t>::max();
  bool progress = false;
  for (std::size_t m = 0; m < domain.messages_.size(); ++m) {
    const std::int64_t made = unmade_[m] - domain.messages_[m].unmade;
    if (made == 0) continue;
    progress = true;
    periods = std::min(periods, (domain.messages_[m].unmade - 2) / made);
  }
  period = now - taken_at_;
  return progress && periods > 0;
}

bool SteadyState::look(Domain& domain, int lane, Cycle now) {
  if (anchor_ < 0) anchor_ = lane;
  if (anchor_ != lane) return false;
  ++seen_;
  if (--wait_ > 0) return false;
  const RingBuffer<std::uint32_t>& messages = domain.lanes_[static_cast<std::size_t>(lane)].messages;
  if (messages.empty() || domain.messages_[messages.front()].unmade < kWorthwhile) {
    forget();
    wait_ = kWorthwhile / 2;
    return false;
  }
  const auto under_way = static_cast<std::uint32_t>(domain.packets_.size() - domain.free_packets_.size());
  if (taken_at_ >= 0 && under_way == packets_ && domain.messages_.size() == unmade_.size()) {
    if (snapshot(domain, true, now) && same_pointers(domain) && plan(domain, now)) return true;
  }
  if (taken_at_ < 0 || seen_ >= reach_) {  // Brent: a newer snapshot, kept for twice as long
    snapshot(domain, false, now);
    counters_ = domain.statistics_.counters;
    unmade_.clear();
    for (const Message& message : domain.messages_) unmade_.push_back(message.unmade);
    lane_pointers_.clear();
    for (const Lane& lane : domain.lanes_) lane_pointers_.push_back(lane.pointer);
    pointers_.clear();
    sprayed_.clear();
    for (const RouterState& state : domain.routers_) {
      pointers_.insert(pointers_.end(), state.input_pointer.begin(), state.input_pointer.end());
      pointers_.insert(pointers_.end(), state.output_pointer.begin(), state.output_pointer.end());
      sprayed_.push_back(state.sprayed);
    }
    packets_ = under_way;
    if (taken_at_ >= 0) reach_ *= 2;
    taken_at_ = now;
    seen_ = 0;
  }
  return false;
}

void SteadyState::pass(Domain& domain, std::int64_t count) const {
  if (count == 0) return;
  const Cycle later = count * period;
  const Shape& shape = domain.shape();
  for (std::size_t i = 0; i < domain.statistics_.counters.size(); ++i) {
    domain.statistics_.counters[i] += count * (domain.statistics_.counters[i] - counters_[i]);
  }
  std::vector<std::int64_t> made(domain.messages_.size());
  for (std::size_t m = 0; m < made.size(); ++m) {
    made[m] = count * (unmade_[m] - domain.messages_[m].unmade);
    domain.messages_[m].unmade -= made[m];
    domain.messages_[m].missing -= made[m];
  }
  for (Packet& packet : domain.packets_) {
    packet.sequence += made[packet.message];
    packet.made += later;
    packet.injected += later;
  }
  for (int c = 0; c < shape.channels(); ++c) {
    Channel& channel = domain.channels_[static_cast<std::size_t>(c)];
    for (std::uint32_t i = 0; i < channel.flits.size(); ++i) channel.flits[i].time += later;
    for (std::uint32_t i = 0; i < channel.credits.size(); ++i) channel.credits[i].time += later;
    if (channel.credit_due != kNever) channel.credit_due += later;
    Wires& wires = domain.wires_[static_cast<std::size_t>(c)];
    if (wires.parts) wires.parts->shift(later);
    wires.free.cycles += later;
    wires.credit_free.cycles += later;
  }
  for (ReceiverVc& vc : domain.receivers_) {
    vc.since += later;
    for (std::uint32_t i = 0; i < vc.buffer.size(); ++i) vc.buffer[i].time += later;
  }
  for (Lane& lane : domain.lanes_) {
    lane.called_at += later;
    lane.worked_at += later;
    lane.made_at += later;
    lane.sent_at += later;
  }
  for (std::size_t l = 0; l < domain.lanes_.size(); ++l) {
    const int vcs_of_lane = shape.rules.vcs;
    const std::int64_t step = domain.lanes_[l].pointer - lane_pointers_[l] + vcs_of_lane;
    turn(domain, static_cast<int>(l), static_cast<int>(step * (count % vcs_of_lane) % vcs_of_lane));
  }
  // Pointers go on as they did in the period: by some steps modulo their range.
  const int vcs = shape.rules.vnets * shape.rules.vcs;
  auto move = [count](int& pointer, int before, int range) {
    const std::int64_t step = (pointer - before + range) % range;
    pointer = static_cast<int>((pointer + step * (count % range)) % range);
  };
  std::size_t place = 0;
  for (std::size_t r = 0; r < domain.routers_.size(); ++r) {
    RouterState& state = domain.routers_[r];
    for (int& pointer : state.input_pointer) move(pointer, pointers_[place++], vcs);
    for (int& pointer : state.output_pointer) move(pointer, pointers_[place++], shape.router[r].input_ports);
    state.call.at += later;
    for (std::uint32_t i = 0; i < state.ready.size(); ++i) state.ready[i] += later;
    state.sprayed += static_cast<std::uint32_t>(count) * (state.sprayed - sprayed_[r]);
  }
  if (shape.divider.empty()) {
    std::rotate(domain.starting_.begin(), domain.starting_.end() - (later & 3), domain.starting_.end());
  } else {
    for (std::size_t r = 0; r < domain.routers_.size(); ++r) {
      const Cycle by = later / shape.divider[r] & 3;
      for (std::size_t word = domain.router_words_[r]; word < domain.router_words_[r + 1]; ++word) {
        std::array<std::uint64_t, 4> words{};
        for (std::size_t slot = 0; slot < 4; ++slot) words[slot] = domain.starting_[slot][word];
        std::rotate(words.begin(), words.end() - by, words.end());
        for (std::size_t slot = 0; slot < 4; ++slot) domain.starting_[slot][word] = words[slot];
      }
    }
  }
  domain.arrivals_.shift(later);
  domain.calendar_.shift(later);
  domain.now_ += later;
  if (domain.next_ != kNever) domain.next_ += later;
}

// All that is in virtual channels of an interface goes `by` of them further.
void SteadyState::turn(Domain& domain, int l, int by) {
  if (by == 0) return;
  const int vcs = domain.shape().rules.vcs;
  const Turn turned{vcs - by, vcs};  // counting from there on adds `by`
  const int c = domain.shape().lane[static_cast<std::size_t>(l)].out;
  const std::size_t base = domain.vc_index(c, 0);
  auto rotate = [&](auto first) { std::rotate(first, first + (vcs - by), first + vcs); };
  rotate(domain.receivers_.begin() + static_cast<std::ptrdiff_t>(base));
  rotate(domain.credits_.begin() + static_cast<std::ptrdiff_t>(base));
  std::vector<std::pair<bool, bool>> sets;
  for (int v = 0; v < vcs; ++v) sets.emplace_back(has_bit(domain.idle(c), v), has_bit(domain.occupied(c), v));
  rotate(sets.begin());
  for (int v = 0; v < vcs; ++v) {
    (sets[static_cast<std::size_t>(v)].first ? set_bit : clear_bit)(domain.idle(c), v);
    (sets[static_cast<std::size_t>(v)].second ? set_bit : clear_bit)(domain.occupied(c), v);
    ReceiverVc& vc = domain.receivers_[base + static_cast<std::size_t>(v)];
    vc.number = static_cast<std::int16_t>(v);
    for (std::uint32_t i = 0; i < vc.buffer.size(); ++i) vc.buffer[i].vc = static_cast<std::uint16_t>(v);
  }
  Channel& channel = domain.channels_[static_cast<std::size_t>(c)];
  auto move = [&](std::uint16_t& vc) { vc = static_cast<std::uint16_t>(turned.back(vc)); };
  for (std::uint32_t i = 0; i < channel.flits.size(); ++i) move(channel.flits[i].vc);
  for (std::uint32_t i = 0; i < channel.credits.size(); ++i) move(channel.credits[i].vc);
  Lane& lane = domain.lanes_[static_cast<std::size_t>(l)];
  for (std::uint32_t i = 0; i < lane.vcs.size(); ++i) move(lane.vcs[i]);
  lane.pointer = turned.back(lane.pointer);
}

}  // namespace astra::packet
