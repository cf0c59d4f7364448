#include "links/channels.hpp"

#include <algorithm>
#include <utility>

namespace astra::packet {

namespace {

bool before(const Span& a, const Span& b) { return a.cycles < b.cycles || (a.cycles == b.cycles && a.ps < b.ps); }

Span plus(Span a, const Span& b, std::int64_t clock_ps) {
  a.cycles += b.cycles;
  a.ps += b.ps;
  if (a.ps >= clock_ps) {
    a.ps -= clock_ps;
    ++a.cycles;
  }
  return a;
}

// When something that a link takes at `takes` arrives: the first clock edge at which it is there. A link that is narrower than a flit has
// a serializer at each end; it takes the next flit when the last part of this one is on the wires. A flit on the wires within a cycle of
// its sender (`own`) is there without delay.
Cycle arrival(const ChannelSpec& spec, Span& free, Cycle takes, Cycle own, std::int64_t clock_ps) {
  Span start{takes + spec.serializer, 0};
  if (before(start, free)) start = free;
  free = plus(start, spec.flit_time, clock_ps);
  const Span there = plus(free, spec.latency, clock_ps);
  const Cycle last = there.cycles - own + spec.serializer + (there.ps > 0);
  if (own == 1) return last;
  const Span first = plus(start, spec.latency, clock_ps);
  return std::max(last, first.cycles + spec.serializer + (first.ps > 0));
}

}  // namespace

Channels::Channels(const Shape& shape, Clock& clock, GarnetEventOrder& calls, Statistics& statistics)
    : shape_(shape),
      clock_(clock),
      calls_(calls),
      statistics_(statistics),
      links_(shape.link),
      channels_(shape.link.size()),
      wires_(shape.link.size()),
      flits_(shape.link.size()),
      wait_for_tail_credit_(shape.rules.waits_for_tail_credit()) {
  auto append = [this](int c) {
    at(channels_, c).first_credit = count_of(credits_);
    credits_.resize(credits_.size() + index(link(c).vcs), shape_->rules.buffers);
  };
  for (const RouterSpec& spec : shape.router) std::for_each(spec.outputs.begin(), spec.outputs.end(), append);
  for (const InjectionPortSpec& injection_port : shape.injection_port) append(injection_port.out);
  for (int c = 0; c < shape.channels(); ++c) {
    Channel& channel = at(channels_, c);
    channel.source = link(c).source;
    channel.delay = link(c).delay;
    if (link(c).vcs > 64) {
      channel.many_idle = count_of(many_idle_);
      many_idle_.resize(many_idle_.size() + index(link(c).vcs + 63) / 64);
    }
    for (int vc = 0; vc < shape.vc_count(c); ++vc) free_vc(c, vc);
    const bool from_router = shape.is_router(channel.source);
    const int handling = from_router ? shape.rules.credit_delay : shape.rules.interface_credit_delay();
    channel.handling = narrow<std::int32_t>(clock.cycles_of(channel.source, handling));
    const int parts = narrow<int>(at(shape.channel, c).flit_time.cycles);
    if (!shape.rules.serialized_credits || parts <= 1) continue;
    at(wires_, c).parts.emplace(parts, shape.vc_count(c));
    parts_somewhere_ = true;
  }
}

void Channels::employ(int threads) {
  handed_.resize(index(threads));
  for (int c = 0; c < shape_->channels(); ++c) {
    at(channels_, c).joins_threads = clock_->thread_of(link(c).source) != clock_->thread_of(link(c).sink);
  }
}

void Channels::settle() {
  for (Handed& handed : handed_) {
    for (const auto& [c, flit] : handed.flits) put(c, flit);
    for (const auto& [c, credit] : handed.credits) put_credit(at(channels_, c), credit);
    handed.flits.clear();
    handed.credits.clear();
  }
}

Cycle Channels::narrow_arrival(int c, Cycle takes) {
  const Link& way = link(c);
  const Cycle own = clock_->cycles_of(way.source, 1);
  return clock_->edge(way.sink, arrival(at(shape_->channel, c), at(wires_, c).free, takes, own, shape_->rules.clock_ps));
}

Cycle Channels::narrow_credit(int c, Cycle takes) {
  const Link& way = link(c);
  const Cycle own = clock_->cycles_of(way.sink, 1);
  return clock_->edge(way.source, arrival(at(shape_->channel, c), at(wires_, c).credit_free, takes, own, shape_->rules.clock_ps));
}

void Channels::send_narrow_credit(int c, std::uint16_t vc, bool frees, Cycle takes) {
  if (at(wires_, c).parts) return send_parts(c, vc, frees, takes);
  pass_credit(c, {narrow_credit(c, takes), vc, frees});
}

void Channels::send_parts(int c, std::uint16_t vc, bool frees, Cycle takes) {
  Channel& channel = at(channels_, c);
  const ChannelSpec& spec = at(shape_->channel, c);
  take_parts(c, takes - 1);
  if (!comes_before_part(c, takes - 1)) take_parts(c, takes);
  at(wires_, c).parts->push(takes, takes + spec.serializer, vc, frees);
  if (!channel.sender_waits) return;
  channel.sender_waits = false;
  clock_->wake(spec.source, takes + 2 * spec.serializer + spec.latency.cycles + channel.handling);
}

// In a cycle, the latest request is handled first. The router asks for the credit in cycle `now`, the wires ask for their next part
// when they take one. So the credit comes first if in cycle `now` the wires had their turn before the router, which is so if they asked for
// it later than the router (or others for it).
bool Channels::comes_before_part(int c, Cycle now) {
  const SerializedCredits& parts = *at(wires_, c).parts;
  if (parts.empty() || parts.next() > now + 1) return true;  // they take none
  const Cycle pushed = parts.pushed_before(now);
  if (pushed == now - 1) return true;  // the serializer has asked for this part, before the router for the credit
  const int r = link(c).sink;
  for (int out : at(shape_->router, r).outputs) take_credits(out, now);
  calls_->settle(r, now);
  return calls_->wires_come_first(r, c, pushed, now);
}

void Channels::take_parts(int c, Cycle now) {
  Channel& channel = at(channels_, c);
  const ChannelSpec& spec = at(shape_->channel, c);
  const Cycle rest = spec.latency.cycles + spec.serializer + shape_->rules.credit_delay;
  at(wires_, c).parts->run(now, [&](Cycle leaves, std::uint16_t vc, bool frees) {
    if (channel.credits.empty()) channel.credit_due = leaves + rest;
    channel.credits.push({leaves + rest, vc, frees});
  });
}

void Channels::take_called_credits(int c, Cycle now) {
  if (at(wires_, c).parts) take_parts(c, now);
  const int sender = link(c).source;
  const bool calls = shape_->is_router(sender);
  take_due_credits(c, now, [&](const Credit& credit) {
    if (calls) calls_->call(sender, c, credit.time - shape_->rules.credit_delay);
  });
}

void Channels::wait_for_credit(int c) {
  if (clock_->units_differ()) take_credits(c, clock_->now());  // or it would be woken in the past, which the clock takes for the future
  Channel& channel = at(channels_, c);
  if (!channel.credits.empty()) {
    clock_->wake(link(c).source, channel.credits.front().time);
    return;
  }
  const Wires& wires = at(wires_, c);
  if (wires.parts && !wires.parts->empty()) {
    const ChannelSpec& spec = at(shape_->channel, c);
    clock_->wake(spec.source, wires.parts->next() + spec.latency.cycles + spec.serializer + shape_->rules.credit_delay);
  } else {
    channel.sender_waits = true;
  }
}

std::int64_t Channels::free_places(int c) const {
  std::int64_t places = 0;
  for (int vc = 0; vc < shape_->vc_count(c); ++vc) places += credits(c, vc) + (has_bit(idle(c), vc) ? shape_->rules.buffers : 0);
  return places;
}

bool Channels::credit_usable_in(int c, Cycle usable) const {
  const RingBuffer<Credit>& credits = at(channels_, c).credits;
  for (std::uint32_t i = 0; i < credits.size() && credits[i].time <= usable; ++i) {
    if (credits[i].time == usable) return true;
  }
  return false;
}

// Flits without all of their parts are too many.
Channels::Places Channels::places(int c, int vc) const {
  const Channel& channel = at(channels_, c);
  const RingBuffer<Flit>& flits = at(flits_, c);
  const std::optional<SerializedCredits>& parts = at(wires_, c).parts;
  Places result;
  result.held = credits(c, vc);
  for (std::uint32_t i = 0; i < flits.size(); ++i) result.held += flits[i].vc == vc;
  for (std::uint32_t i = 0; i < channel.credits.size(); ++i) result.held += channel.credits[i].vc == vc;
  if (parts) result.parts = parts->parts();
  if (parts) result.under_way = parts->under_way(vc);
  result.buffers = shape_->rules.buffers * result.parts + (parts ? parts->overtaken(vc) : 0);
  return result;
}

// If a packet has its virtual channel until its last credit is back, those that are idle are at rest, unless parts of credits have
// overtaken others.
void Channels::snapshot(Snapshot& snapshot, const Messages& messages) {
  const Cycle now = snapshot.now();
  for (int c = 0; c < shape_->channels() && snapshot.same(); ++c) {
    take_credits(c, now);
    const VcTurn& turn = snapshot.turn(c);
    const Channel& channel = at(channels_, c);
    const RingBuffer<Flit>& flits = at(flits_, c);
    const Wires& wires = at(wires_, c);
    snapshot.future(wires.free);
    snapshot.future(wires.credit_free);
    snapshot.put(channel.sender_waits | wide(flits.size()) << 1 | wide(channel.credits.size()) << 32);
    for (std::uint32_t i = 0; i < flits.size(); ++i) messages.snapshot_flit(snapshot, flits[i], turn);
    for (std::uint32_t i = 0; i < channel.credits.size(); ++i) {
      snapshot.time(channel.credits[i].time);
      snapshot.put(turn.back(channel.credits[i].vc) | (channel.credits[i].frees ? 1 << 16 : 0));
    }
    if (wires.parts) wires.parts->each(now, [&](std::int64_t value) { snapshot.put(value); });
    for (int place = 0; place < turn.count; ++place) {
      const int vc = turn.forth(place);
      const bool is_idle = has_bit(idle(c), vc);
      if (is_idle && shape_->rules.waits_for_tail_credit() && credits(c, vc) == shape_->rules.buffers) continue;
      snapshot.put(shape_->vc_index(c, place) << 1 | is_idle);
      snapshot.put(credits(c, vc));
    }
  }
}

void Channels::shift(Cycle later) {
  for (RingBuffer<Flit>& flits : flits_) {
    for (std::uint32_t i = 0; i < flits.size(); ++i) flits[i].time += later;
  }
  for (Channel& channel : channels_) {
    for (std::uint32_t i = 0; i < channel.credits.size(); ++i) channel.credits[i].time += later;
    if (channel.credit_due != kNever) channel.credit_due += later;
  }
  for (Wires& wires : wires_) {
    if (wires.parts) wires.parts->shift(later);
    wires.free.cycles += later;
    wires.credit_free.cycles += later;
  }
}

void Channels::turn(int c, const VcTurn& turn) {
  Channel& channel = at(channels_, c);
  RingBuffer<Flit>& flits = at(flits_, c);
  auto move = [&](std::uint16_t& vc) { vc = narrow<std::uint16_t>(turn.back(vc)); };
  for (std::uint32_t i = 0; i < flits.size(); ++i) move(flits[i].vc);
  for (std::uint32_t i = 0; i < channel.credits.size(); ++i) move(channel.credits[i].vc);
  std::vector<bool> idle_before;
  for (int vc = 0; vc < turn.count; ++vc) idle_before.push_back(has_bit(idle(c), vc));
  for (int vc = 0; vc < turn.count; ++vc) at(idle_before, vc) ? free_vc(c, turn.back(vc)) : give_vc(c, turn.back(vc));
  std::int32_t* const counts = &at(credits_, channel.first_credit);
  std::rotate(counts, counts + turn.first, counts + turn.count);
}

}  // namespace astra::packet
