// Links: latency, width, and credits the other way.

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
// a serializer at each end; it takes the next flit when the last part of this one is on the wires.
Cycle arrival(const ChannelSpec& spec, Span& free, Cycle takes, std::int64_t clock_ps) {
    if (spec.flit_time.cycles <= 1 && spec.flit_time.ps == 0) return takes + spec.latency.cycles + (spec.latency.ps > 0);
    Span start{takes + spec.serializer, 0};
    if (before(start, free)) start = free;
    free = plus(start, spec.flit_time, clock_ps);
    const Span there = plus(free, spec.latency, clock_ps);
    return there.cycles - 1 + spec.serializer + (there.ps > 0);
}

}  // namespace

void Domain::send_flit(int c, Flit flit, Cycle takes) {
    Channel& channel = channels_[static_cast<std::size_t>(c)];
    const ChannelSpec& spec = shape_->channel[static_cast<std::size_t>(c)];
    flit.time = arrival(spec, channel.free, takes, shape_->rules.clock_ps);
    if (channel.flits.empty()) {
        flit_due_[static_cast<std::size_t>(c)] = flit.time;
        schedule(spec.sink, flit.time);
    }
    channel.flits.push(flit);
    statistics_.add(c, Statistics::kChannelFlits, 1);
    if (flit.head) statistics_.add(c, Statistics::kChannelPackets, 1);
    if (spec.dimension >= 0) statistics_.add(Statistics::kFlitHops, 1);
}

void Domain::send_credit(int c, std::uint16_t vc, bool frees, Cycle takes) {
    Channel& channel = channels_[static_cast<std::size_t>(c)];
    const ChannelSpec& spec = shape_->channel[static_cast<std::size_t>(c)];
    const Rules& rules = shape_->rules;
    const Cycle handling = shape_->is_router(spec.source) ? rules.credit_delay : rules.interface_credit_delay;
    if (channel.parts) {
        take_parts(c, takes - 1);
        channel.parts->push(takes + spec.serializer, vc, frees);
        if (channel.sender_waits) {
            channel.sender_waits = false;
            schedule(spec.source, takes + 2 * spec.serializer + spec.latency.cycles + handling);
        }
        return;
    }
    const Cycle usable = arrival(spec, channel.credit_free, takes, rules.clock_ps) + handling;
    if (channel.credits.empty()) credit_due_[static_cast<std::size_t>(c)] = usable;
    channel.credits.push({usable, vc, frees});
    if (channel.sender_waits) {
        channel.sender_waits = false;
        schedule(spec.source, usable);
    }
}

// The first flit on a channel, which has arrived. Its receiver is called again for the next.
Flit Domain::take_flit(int c) {
    RingBuffer<Flit>& flits = channels_[static_cast<std::size_t>(c)].flits;
    const Flit flit = flits.front();
    flits.pop();
    Cycle& due = flit_due_[static_cast<std::size_t>(c)];
    due = kNever;
    if (!flits.empty()) {
        due = flits.front().time;
        schedule(shape_->channel[static_cast<std::size_t>(c)].sink, due);
    }
    return flit;
}

// Credits of which the last part leaves up to cycle `now` are on their way.
void Domain::take_parts(int c, Cycle now) {
    Channel& channel = channels_[static_cast<std::size_t>(c)];
    const ChannelSpec& spec = shape_->channel[static_cast<std::size_t>(c)];
    const Cycle rest = spec.latency.cycles + spec.serializer + shape_->rules.credit_delay;
    channel.parts->run(now, [&](Cycle leaves, std::uint16_t vc, bool frees) {
        if (channel.credits.empty()) credit_due_[static_cast<std::size_t>(c)] = leaves + rest;
        channel.credits.push({leaves + rest, vc, frees});
    });
}

void Domain::take_credits(int c, Cycle now) {
    if (shape_->rules.credit_parts && channels_[static_cast<std::size_t>(c)].parts) take_parts(c, now);
    Cycle& due = credit_due_[static_cast<std::size_t>(c)];
    if (due > now) return;
    RingBuffer<Credit>& credits = channels_[static_cast<std::size_t>(c)].credits;
    while (!credits.empty() && credits.front().time <= now) {
        SenderVc& sender = senders_[vc_index(c, credits.front().vc)];
        ++sender.credits;
        if (credits.front().frees && shape_->rules.wait_for_tail_credit) sender.busy = false;
        credits.pop();
    }
    due = credits.empty() ? kNever : credits.front().time;
}

void Domain::wait_for_credit(int c) {
    Channel& channel = channels_[static_cast<std::size_t>(c)];
    if (channel.credits.empty() && channel.parts && !channel.parts->empty()) {
        const ChannelSpec& spec = shape_->channel[static_cast<std::size_t>(c)];
        schedule(spec.source, channel.parts->next() + spec.latency.cycles + spec.serializer + shape_->rules.credit_delay);
    } else if (channel.credits.empty()) {
        channel.sender_waits = true;
    } else {
        schedule(shape_->channel[static_cast<std::size_t>(c)].source, channel.credits.front().time);
    }
}

}  // namespace astra::packet
