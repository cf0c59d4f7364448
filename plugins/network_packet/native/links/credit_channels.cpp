#include "links/credit_channels.hpp"

#include <algorithm>
#include <optional>

namespace astra::packet {

CreditChannels::CreditChannels(const Shape& shape, Clock& clock, GarnetEventOrder& calls)
    : shape_(shape),
      clock_(clock),
      links_(shape.link),
      channels_(shape.link.size()),
      wires_(shape),
      serializers_(shape, calls),
      wait_for_tail_credit_(shape.rules.waits_for_tail_credit()) {
  auto append = [this](int c) {
    at(channels_, c).first_count = count_of(counts_);
    counts_.resize(counts_.size() + index(at(links_, c).vcs), shape_->rules.buffers);
  };
  for (const RouterSpec& spec : shape.router) std::for_each(spec.outputs.begin(), spec.outputs.end(), append);
  for (const InjectionPortSpec& injection_port : shape.injection_port) append(injection_port.out);
  for (int c = 0; c < shape.channels(); ++c) {
    Channel& channel = at(channels_, c);
    channel.source = at(links_, c).source;
    channel.delay = at(links_, c).delay;
    if (at(links_, c).vcs > 64) {
      channel.many_idle = count_of(many_idle_);
      many_idle_.resize(many_idle_.size() + index(at(links_, c).vcs + 63) / 64);
    }
    for (int vc = 0; vc < shape.vc_count(c); ++vc) free_vc(c, vc);
    const bool from_router = shape.is_router(channel.source);
    const int handling = from_router ? shape.rules.credit_delay : shape.rules.interface_credit_delay();
    channel.handling = narrow<std::int32_t>(clock.cycles_of(channel.source, handling));
  }
}

void CreditChannels::employ(int threads) {
  handed_.employ(threads);
  for (int c = 0; c < shape_->channels(); ++c) {
    at(channels_, c).joins_threads = clock_->thread_of(at(links_, c).source) != clock_->thread_of(at(links_, c).sink);
  }
}

void CreditChannels::settle() {
  handed_.settle([this](int c, const Credit& credit) { put(at(channels_, c), credit); });
}

void CreditChannels::send_narrow(int c, std::uint16_t vc, bool frees, Cycle takes) {
  if (serializers_.of(c)) return send_parts(c, vc, frees, takes);
  const Link& way = at(links_, c);
  const Cycle own = clock_->cycles_of(way.sink, 1);
  pass(c, {clock_->edge(way.source, wires_.arrival(c, takes, own)), vc, frees});
}

void CreditChannels::send_parts(int c, std::uint16_t vc, bool frees, Cycle takes) {
  take_parts(c, takes - 1);
  if (!serializers_.comes_before_part(c, takes - 1, [&](int out) { take(out, takes - 1); })) take_parts(c, takes);
  const Cycle soonest = serializers_.push(c, takes, vc, frees);
  Channel& channel = at(channels_, c);
  if (!channel.sender_waits) return;
  channel.sender_waits = false;
  clock_->wake(channel.source, soonest + channel.handling);
}

void CreditChannels::take_parts(int c, Cycle now) {
  Channel& channel = at(channels_, c);
  serializers_.run(c, now, [&](const Credit& credit) {
    if (channel.credits.empty()) channel.credit_due = credit.time;
    channel.credits.push(credit);
  });
}

void CreditChannels::take_called(int c, Cycle now) {
  if (serializers_.of(c)) take_parts(c, now);
  take_due(c, now, [&](const Credit& credit) { serializers_.call_sender(c, credit); });
}

void CreditChannels::wait_for_credit(int c, Cycle now) {
  take(c, now);  // or it would be woken in the past, which the clock takes for the future
  Channel& channel = at(channels_, c);
  if (!channel.credits.empty()) {
    clock_->wake(at(links_, c).source, channel.credits.front().time);
    return;
  }
  const Cycle next = serializers_.next(c);
  if (next != kNever) {
    clock_->wake(channel.source, next);
  } else {
    channel.sender_waits = true;
  }
}

std::int64_t CreditChannels::free_places(int c) const {
  std::int64_t places = 0;
  for (int vc = 0; vc < shape_->vc_count(c); ++vc) places += count(c, vc) + (has_bit(idle(c), vc) ? shape_->rules.buffers : 0);
  return places;
}

bool CreditChannels::usable_in(int c, Cycle usable) const {
  const RingBuffer<Credit>& credits = at(channels_, c).credits;
  for (std::uint32_t i = 0; i < credits.size() && credits[i].time <= usable; ++i) {
    if (credits[i].time == usable) return true;
  }
  return false;
}

CreditChannels::Places CreditChannels::places(int c, int vc) const {
  const Channel& channel = at(channels_, c);
  const std::optional<SerializedCredits>& parts = serializers_.of(c);
  Places result;
  result.held = count(c, vc);
  for (std::uint32_t i = 0; i < channel.credits.size(); ++i) result.held += channel.credits[i].vc == vc;
  if (parts) result.parts = parts->parts();
  if (parts) result.under_way = parts->under_way(vc);
  result.buffers = shape_->rules.buffers * result.parts + (parts ? parts->overtaken(vc) : 0);
  return result;
}

// If a packet has its virtual channel until its last credit is back, those that are idle are at rest, unless parts of credits have
// overtaken others.
void CreditChannels::snapshot(Snapshot& snapshot) {
  const Cycle now = snapshot.now();
  for (int c = 0; c < shape_->channels() && snapshot.same(); ++c) {
    take(c, now);
    const VcTurn& turn = snapshot.turn(c);
    const Channel& channel = at(channels_, c);
    wires_.snapshot(snapshot, c);
    snapshot.put(channel.sender_waits | wide(channel.credits.size()) << 1);
    for (std::uint32_t i = 0; i < channel.credits.size(); ++i) {
      snapshot.time(channel.credits[i].time);
      snapshot.put(turn.back(channel.credits[i].vc) | (channel.credits[i].frees ? 1 << 16 : 0));
    }
    serializers_.snapshot(snapshot, c);
    for (int place = 0; place < turn.count; ++place) {
      const int vc = turn.forth(place);
      const bool is_idle = has_bit(idle(c), vc);
      if (is_idle && shape_->rules.waits_for_tail_credit() && count(c, vc) == shape_->rules.buffers) continue;
      snapshot.put(shape_->vc_index(c, place) << 1 | is_idle);
      snapshot.put(count(c, vc));
    }
  }
}

void CreditChannels::shift(Cycle later) {
  for (Channel& channel : channels_) {
    for (std::uint32_t i = 0; i < channel.credits.size(); ++i) channel.credits[i].time += later;
    if (channel.credit_due != kNever) channel.credit_due += later;
  }
  serializers_.shift(later);
  wires_.shift(later);
}

void CreditChannels::turn(int c, const VcTurn& turn) {
  Channel& channel = at(channels_, c);
  for (std::uint32_t i = 0; i < channel.credits.size(); ++i) {
    channel.credits[i].vc = narrow<std::uint16_t>(turn.back(channel.credits[i].vc));
  }
  std::vector<bool> idle_before;
  for (int vc = 0; vc < turn.count; ++vc) idle_before.push_back(has_bit(idle(c), vc));
  for (int vc = 0; vc < turn.count; ++vc) at(idle_before, vc) ? free_vc(c, turn.back(vc)) : give_vc(c, turn.back(vc));
  std::int32_t* const counts = &at(counts_, channel.first_count);
  std::rotate(counts, counts + turn.first, counts + turn.count);
}

}  // namespace astra::packet
