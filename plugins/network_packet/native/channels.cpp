// Links: latency, width, and credits the other way.

#include <algorithm>

#include "domain.hpp"

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
// a serializer at each end; it takes the next flit when the last part of this one is on the wires. What is on the wires within a cycle of
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

void Domain::send_flit(int c, Flit flit, Cycle takes) {
  RingBuffer<Flit>& flits = channels_[static_cast<std::size_t>(c)].flits;
  const Link& way = link(c);
  if (way.delay >= 0) {
    flit.time = edge(way.sink, takes + way.delay);
    arrivals_.add(c, flit.time);
  } else {
    const ChannelSpec& spec = shape_->channel[static_cast<std::size_t>(c)];
    flit.time =
        edge(way.sink, arrival(spec, wires_[static_cast<std::size_t>(c)].free, takes, cycles_of(way.source, 1), shape_->rules.clock_ps));
    if (flits.empty()) arrivals_.add(c, flit.time);
  }
  flits.push(flit);
  statistics_.add(c, Statistics::kChannelFlits, 1);
  if (flit.head) statistics_.add(c, Statistics::kChannelPackets, 1);
  if (way.dimension >= 0) statistics_.add(Statistics::kFlitHops, 1);
}

void Domain::send_credit(int c, std::uint16_t vc, bool frees, Cycle takes) {
  Channel& channel = channels_[static_cast<std::size_t>(c)];
  const Link& way = link(c);
  const Rules& rules = shape_->rules;
  const Cycle handling = cycles_of(way.source, shape_->is_router(way.source) ? rules.credit_delay : rules.interface_credit_delay);
  Cycle usable = edge(way.source, takes + way.delay) + handling;
  if (way.delay < 0) {
    const ChannelSpec& spec = shape_->channel[static_cast<std::size_t>(c)];
    Wires& wires = wires_[static_cast<std::size_t>(c)];
    if (wires.parts) {
      take_parts(c, takes - 1);
      if (!comes_before_part(c, takes - 1)) take_parts(c, takes);
      wires.parts->push(takes, takes + spec.serializer, vc, frees);
      if (channel.sender_waits) {
        channel.sender_waits = false;
        schedule(spec.source, takes + 2 * spec.serializer + spec.latency.cycles + handling);
      }
      return;
    }
    usable = edge(way.source, arrival(spec, wires.credit_free, takes, cycles_of(way.sink, 1), rules.clock_ps)) + handling;
  }
  if (channel.credits.empty()) channel.credit_due = usable;
  channel.credits.push({usable, vc, frees});
  if (channel.sender_waits) {
    channel.sender_waits = false;
    schedule(way.source, usable);
  }
}

// Whether a credit that the router at the end of a narrow channel gives back in cycle `now` comes to the serializer, a cycle later, before
// the wires take their part of that cycle.
//
// In a cycle, what was asked for last is handled first. The router asks for the credit in cycle `now`, the wires ask for their next part
// when they take one. So the credit comes first if in cycle `now` the wires had their turn before the router, which is so if they asked for
// it later than the router (or others for it). Both ask for themselves a cycle ahead as long as they have work, and their order then
// changes from cycle to cycle; it is settled anew where another asks earlier: for the wires the serializer, for the router whoever sends it
// something. Where two ask in the same cycle the router has asked later; Garnet's order then depends on units further away.
bool Domain::comes_before_part(int c, Cycle now) {
  const CreditParts& parts = *wires_[static_cast<std::size_t>(c)].parts;
  if (parts.empty() || parts.next() > now + 1) return true;  // they take none
  const Cycle pushed = parts.pushed_before(now);
  if (pushed == now - 1) return true;  // the serializer has asked for this part, before the router for the credit
  const int r = link(c).sink;
  for (int out : shape_->router[static_cast<std::size_t>(r)].outputs) take_credits(out, now);
  settle_calls(r, now);
  const Call& router = routers_[static_cast<std::size_t>(r)].call;
  const int serializer = shape_->channel[static_cast<std::size_t>(c)].serializer;
  const Cycle wires = pushed + serializer;
  const Cycle since = std::max(wires, router.at);
  const Cycle router_ahead = router.at == since ? router.ahead : 1;
  const Cycle wires_ahead = wires == since ? serializer : 1;
  return (router_ahead > wires_ahead) == ((now - since) % 2 == 0);
}

// Something reaches a router through a channel, on either end of it: it was asked for when that was put on the wires.
void Domain::call_router(int r, int c, Cycle at) {
  const Link& way = link(c);
  routers_[static_cast<std::size_t>(r)].call.ask(at, way.delay < 0 ? shape_->channel[static_cast<std::size_t>(c)].serializer : way.delay);
}

// Flits that have been in the pipeline of a router until cycle `now`: it asked for itself when they came.
void Domain::settle_calls(int r, Cycle now) {
  RouterState& state = routers_[static_cast<std::size_t>(r)];
  for (; !state.ready.empty() && state.ready.front() <= now; state.ready.pop()) {
    state.call.ask(state.ready.front(), shape_->rules.router_latency - 1);
  }
}

bool Domain::holds_flits(int r) {
  for (int in : shape_->router[static_cast<std::size_t>(r)].inputs) {
    if (next_bit(occupied(in), 0, shape_->vc_count(in)) >= 0) return true;
  }
  return false;
}

// The first flit on a channel has arrived. At the end of a slower clock, others may have since its last edge.
void Domain::receive(int c, Cycle now) {
  RingBuffer<Flit>& flits = channels_[static_cast<std::size_t>(c)].flits;
  const Link& way = link(c);
  do {
    const Flit flit = flits.front();
    flits.pop();
    if (!shape_->is_router(way.sink)) {
      consume(way.sink - shape_->routers(), flit, now);
    } else if (shape_->rules.allocation == Allocation::combined) {
      receive_combined(c, flit, now);
    } else {
      receive_staged(c, flit, now);
    }
  } while (dividers_ != nullptr && !flits.empty() && flits.front().time <= now);
  if (way.delay < 0 && !flits.empty()) arrivals_.add(c, flits.front().time);
}

// Credits of which the last part leaves up to cycle `now` are on their way.
void Domain::take_parts(int c, Cycle now) {
  Channel& channel = channels_[static_cast<std::size_t>(c)];
  const ChannelSpec& spec = shape_->channel[static_cast<std::size_t>(c)];
  const Cycle rest = spec.latency.cycles + spec.serializer + shape_->rules.credit_delay;
  wires_[static_cast<std::size_t>(c)].parts->run(now, [&](Cycle leaves, std::uint16_t vc, bool frees) {
    if (channel.credits.empty()) channel.credit_due = leaves + rest;
    channel.credits.push({leaves + rest, vc, frees});
  });
}

void Domain::take_credits(int c, Cycle now) {
  Channel& channel = channels_[static_cast<std::size_t>(c)];
  if (shape_->rules.credit_parts && wires_[static_cast<std::size_t>(c)].parts) take_parts(c, now);
  if (channel.credit_due > now) return;
  const std::size_t base = vc_index(c, 0);
  RingBuffer<Credit>& credits = channel.credits;
  do {
    const Credit& credit = credits.front();
    ++credits_[base + credit.vc];
    if (calls_matter_ && shape_->is_router(link(c).source)) call_router(link(c).source, c, credit.time - shape_->rules.credit_delay);
    if (credit.frees && shape_->rules.wait_for_tail_credit) set_bit(idle(c), credit.vc);
    credits.pop();
  } while (!credits.empty() && credits.front().time <= now);
  channel.credit_due = credits.empty() ? kNever : credits.front().time;
}

void Domain::wait_for_credit(int c) {
  if (dividers_ != nullptr) take_credits(c, now_);  // or it would be woken in the past, which the calendar takes for the future
  Channel& channel = channels_[static_cast<std::size_t>(c)];
  if (!channel.credits.empty()) {
    schedule(link(c).source, channel.credits.front().time);
    return;
  }
  const Wires& wires = wires_[static_cast<std::size_t>(c)];
  if (wires.parts && !wires.parts->empty()) {
    const ChannelSpec& spec = shape_->channel[static_cast<std::size_t>(c)];
    schedule(spec.source, wires.parts->next() + spec.latency.cycles + spec.serializer + shape_->rules.credit_delay);
  } else {
    channel.sender_waits = true;
  }
}

}  // namespace astra::packet
