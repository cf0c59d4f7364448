#include "domain.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "traffic.hpp"

namespace astra::packet {

Domain::Domain(std::shared_ptr<const Shape> shape)
    : shape_(std::move(shape)),
      links_(shape_->link.data()),
      dividers_(shape_->divider.empty() ? nullptr : shape_->divider.data()),
      channels_(static_cast<std::size_t>(shape_->channels())),
      wires_(channels_.size()),
      credits_(static_cast<std::size_t>(shape_->all_vcs), shape_->rules.buffers),
      receivers_(static_cast<std::size_t>(shape_->all_vcs)),
      occupied_(static_cast<std::size_t>(shape_->all_words)),
      idle_(occupied_.size()),
      lanes_(static_cast<std::size_t>(shape_->lanes())),
      routers_(static_cast<std::size_t>(shape_->routers())),
      arrivals_(shape_->channels(), shape_->horizon),
      calendar_(shape_->units(), shape_->horizon),
      statistics_(shape_->channels()) {
  const Rules& rules = shape_->rules;
  for (int c = 0; rules.credit_parts && c < shape_->channels(); ++c) {
    const int parts = static_cast<int>(shape_->channel[static_cast<std::size_t>(c)].flit_time.cycles);
    if (parts <= 1) continue;
    wires_[static_cast<std::size_t>(c)].parts.emplace(parts, shape_->vc_count(c));
    calls_matter_ = true;
  }
  for (int c = 0; c < shape_->channels(); ++c) {
    for (int number = 0; number < shape_->vc_count(c); ++number) {
      set_bit(idle(c), number);
      receivers_[vc_index(c, number)].channel = c;
      receivers_[vc_index(c, number)].number = static_cast<std::int16_t>(number);
    }
  }
  const int width = rules.vnets * rules.vcs;
  router_words_.push_back(0);
  std::size_t choices = 0;
  std::size_t ports = 0;
  for (int r = 0; r < shape_->routers(); ++r) {
    const RouterSpec& spec = shape_->router[static_cast<std::size_t>(r)];
    RouterState& state = routers_[static_cast<std::size_t>(r)];
    const int inputs = static_cast<int>(spec.inputs.size());
    router_words_.push_back(router_words_.back());
    ports = std::max(ports, static_cast<std::size_t>(spec.output_ports));
    state.random = (rules.seed + static_cast<std::uint64_t>(r) + 1) * 0x9E3779B97F4A7C15ULL;
    if (rules.allocation == Allocation::combined) {
      state.input_pointer.assign(spec.inputs.size(), 0);
      state.output_pointer.assign(static_cast<std::size_t>(spec.output_ports), 0);
      state.input_choice.assign(spec.inputs.size(), -1);
      state.output_choice.assign(static_cast<std::size_t>(spec.output_ports), -1);
    } else {
      const int expanded = inputs * rules.input_speedup;
      const int vcs = shape_->vc_base[static_cast<std::size_t>(r) + 1] - shape_->vc_base[static_cast<std::size_t>(r)];
      router_words_.back() += static_cast<std::size_t>(vcs + 63) / 64;
      state.next_vc.assign(static_cast<std::size_t>(expanded), 0);
      state.vc_pointers.resize(inputs * width, spec.output_ports * width);
      state.switch_pointers.resize(expanded, spec.output_ports);
      state.speculative_pointers.resize(expanded, spec.output_ports);
      choices = std::max(choices, static_cast<std::size_t>(expanded * spec.output_ports));
    }
  }
  allocating_.resize(router_words_.back());
  switching_.resize(router_words_.back());
  for (std::vector<std::uint64_t>& sets : starting_) sets.resize(router_words_.back());
  best_.assign(ports, -1);
  choice_.assign(choices, -1);
}

// Out of line: only networks with clocks of their own for routers come here.
Cycle Domain::later_edge(int unit, Cycle time) const {
  const Cycle divider = dividers_[unit];
  return (time + divider - 1) / divider * divider;
}

void Domain::schedule(int unit, Cycle time) {
  time = edge(unit, time);
  calendar_.add(unit, time);
  if (time < next_) next_ = time;
}

Message& Domain::new_message(int lane, std::int64_t packets) {
  std::uint32_t index;
  if (free_messages_.empty()) {
    index = static_cast<std::uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    index = free_messages_.back();
    free_messages_.pop_back();
  }
  lanes_[static_cast<std::size_t>(lane)].messages.push(index);
  ++outstanding_;
  Message& message = messages_[index];
  message.source = shape_->lane[static_cast<std::size_t>(lane)].node;
  message.packets = message.unmade = message.missing = packets;
  return message;
}

void Domain::inject(Cycle now, int source, int destination, int vnet, std::int64_t bytes, std::uint64_t number, bool awake) {
  const Rules& rules = shape_->rules;
  const std::int64_t size = std::max<std::int64_t>(bytes, 1);
  const std::int64_t packets = (size + rules.packet_bytes - 1) / rules.packet_bytes;
  const std::int64_t last = size - (packets - 1) * rules.packet_bytes;
  const auto flits = static_cast<std::int32_t>((last + rules.flit_bytes - 1) / rules.flit_bytes);
  const int l = shape_->lane_towards(source, destination, vnet);
  steady_.forget();
  const bool first = lanes_[static_cast<std::size_t>(l)].messages.empty();
  Message& message = new_message(l, packets);
  message.destination = destination;
  message.last_flits = rules.full_last_packet ? rules.packet_flits : flits;
  message.created = now;
  const int unit = shape_->routers() + l;
  message.ready = awake ? now : edge(unit, now) + cycles_of(unit, 1);
  message.number = number;
  schedule_lane(l, now + 1);
  Lane& lane = lanes_[static_cast<std::size_t>(l)];
  lane.called_at = now;
  if (!awake || !first || lane.made_at == now) return;
  take_credits(shape_->lane[static_cast<std::size_t>(l)].out, now);
  make_packet(l, now);
  if (lane.sent_at != now && !lane.packets.empty()) send_from(l, now);
}

bool Domain::awake(int l, Cycle now) const {
  const Lane& lane = lanes_[static_cast<std::size_t>(l)];
  if (lane.worked_at == now || !lane.packets.empty()) return true;
  const RingBuffer<Credit>& credits = channels_[static_cast<std::size_t>(shape_->lane[static_cast<std::size_t>(l)].out)].credits;
  const Cycle usable = now + shape_->rules.interface_credit_delay;
  for (std::uint32_t i = 0; i < credits.size() && credits[i].time <= usable; ++i) {
    if (credits[i].time == usable) return true;
  }
  return false;
}

// A message of one packet that may leave in the cycle in which it is created.
void Domain::create(Cycle created, int lane, int destination, int flits) {
  Message& message = new_message(lane, 1);
  message.destination = destination;
  message.last_flits = flits;
  message.created = message.ready = created;
}

void Domain::attach(Traffic* traffic) { traffic_ = traffic; }

void Domain::drop_messages() {
  for (Lane& lane : lanes_) {
    while (!lane.messages.empty()) {
      Message& message = messages_[lane.messages.front()];
      message.missing -= std::exchange(message.unmade, 0);
      if (message.missing == 0) {
        free_messages_.push_back(lane.messages.front());
        --outstanding_;
      }
      lane.messages.pop();
    }
  }
}

void Domain::run(Cycle time, std::vector<std::uint64_t>& arrived) {
  if (passing_ > 0) steady_.pass(*this, std::exchange(passing_, 0));
  arrived_ = &arrived;
  step(time);
  if (packet_made_by_ < 0 || !shape_->rules.extrapolate || shape_->rhythm == kNever || traffic_ != nullptr || next_ == kNever) return;
  if (steady_.look(*this, packet_made_by_, time)) passing_ = steady_.periods;
}

void Domain::step(Cycle time) {
  now_ = time;
  packet_made_by_ = -1;
  arrivals_.take(time, [&](int c) { receive(c, time); });
  next_ = kNever;
  const int routers = shape_->routers();
  const bool combined = shape_->rules.allocation == Allocation::combined;
  calendar_.take(time, [&](int unit) {
    if (unit >= routers) {
      run_lane(unit - routers, time);
    } else if (combined) {
      run_combined(unit, time);
    } else {
      run_staged(unit, time);
    }
  });
  if (next_ != time + 1) next_ = std::min(calendar_.next(time + 1), arrivals_.next(time + 1));
}

void Domain::catch_up(Cycle time) {
  if (passing_ == 0) return;
  const std::int64_t whole = std::min(passing_, (time - now_) / steady_.period);
  passing_ = 0;
  steady_.pass(*this, whole);
  steady_.forget();
  std::vector<std::uint64_t> none;
  arrived_ = &none;
  while (next_ <= time) step(next_);
}

std::vector<std::int64_t> Domain::signature(Cycle now) {
  for (int c = 0; c < shape_->channels(); ++c) take_credits(c, now);
  packets_.clear();
  free_packets_.clear();
  messages_.clear();
  free_messages_.clear();
  steady_.forget();
  return SteadyState::signature(*this, now);
}

std::string Domain::check() const {
  const Rules& rules = shape_->rules;
  for (int c = 0; c < shape_->channels(); ++c) {
    const Channel& channel = channels_[static_cast<std::size_t>(c)];
    const std::string& name = shape_->name[static_cast<std::size_t>(c)];
    for (int v = 0; v < shape_->vc_count(c); ++v) {
      const ReceiverVc& vc = receivers_[vc_index(c, v)];
      std::int64_t held = credits_[vc_index(c, v)] + vc.buffer.size();
      const Wires& wires = wires_[static_cast<std::size_t>(c)];
      for (std::uint32_t i = 0; i < channel.flits.size(); ++i) held += channel.flits[i].vc == v;
      for (std::uint32_t i = 0; i < channel.credits.size(); ++i) held += channel.credits[i].vc == v;
      // In parts of credits, where they have such: what came without all of its parts is too much.
      const std::int64_t size = wires.parts ? wires.parts->parts() : 1;
      const std::int64_t under_way = wires.parts ? wires.parts->under_way(v) : 0;
      const std::int64_t buffers = rules.buffers * size + (wires.parts ? wires.parts->overtaken(v) : 0);
      if (held * size + under_way != buffers) return name + ": credits, flits and credits under way add up to " + std::to_string(held);
      if (vc.buffer.size() * size > buffers) return name + ": more flits than buffers";
      for (std::uint32_t i = 1; i < vc.buffer.size(); ++i) {
        const bool follows = vc.buffer[i].packet == vc.buffer[i - 1].packet;
        if (follows == vc.buffer[i].head || follows == vc.buffer[i - 1].tail) return name + ": flits out of order";
      }
    }
  }
  if (outstanding_ == 0) {
    for (std::uint64_t bits : occupied_) {
      if (bits != 0) return "flits are left though all messages have arrived";
    }
    if (free_packets_.size() != packets_.size()) return "packets are left though all messages have arrived";
  }
  return "";
}

}  // namespace astra::packet
