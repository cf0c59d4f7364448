#include "network.hpp"

#include <algorithm>
#include <utility>

namespace astra::roce {
namespace {

// Events before its own at which an event's data is prefetched.
constexpr std::size_t kFar = 10;
constexpr std::size_t kNear = 4;
constexpr unsigned kPicosecondBuckets = 10;  // events are sorted within a nanosecond, about

// Ticks that most events are in the future, at most: packets on a link.
Tick longest_delay(const Plan& plan) {
  Tick longest = 0;
  for (const LinkSpec& link : plan.links) longest = std::max(longest, link.delay);
  return longest + longest / 2;
}

}  // namespace

Network::Network(Settings settings, Plan plan)
    : settings_(std::move(settings)),
      plan_(std::move(plan)),
      events_(longest_delay(plan_), settings_.ticks_per_ns == 1 ? 0 : kPicosecondBuckets),
      random_(settings_.seed),
      packets_(settings_.algorithm, settings_.goes_around()),
      routes_(settings_, plan_),
      wires_(settings_, plan_, events_, packets_),
      nics_(settings_, events_, packets_, flows_, wires_, plan_.links.size()),
      path_choices_(settings_, plan_, routes_, events_, packets_, flows_, random_),
      switches_(settings_, plan_, events_, packets_, flows_, wires_, path_choices_, random_, monitor_),
      congestion_(make_congestion({settings_, events_, packets_, flows_, nics_, random_})),
      endpoints_(settings_, events_, packets_, flows_, nics_, path_choices_, *congestion_, monitor_, random_) {
  path_choices_.look_at(switches_.queues());
  settings_.pint_rtt_ns = static_cast<std::uint64_t>(routes_.longest_round_trip_ns());
  // HPCC and PINT see a port's total of sent bytes.
  repeats_ = settings_.extrapolate && settings_.balancing == Balancing::ecmp && settings_.algorithm != Algorithm::hpcc &&
             settings_.algorithm != Algorithm::pint;
  for (std::uint32_t number = 0; number < plan_.failures.size(); ++number) {
    events_.at(plan_.failures[number].time, EventKind::failure, number);
    ++failures_left_;
  }
}

void Network::inject(Tick time, const MessageSpec& message) {
  if (message.source >= plan_.npus || message.destination >= plan_.npus || message.bytes < 0) {
    throw InvalidMessage("a message of " + std::to_string(message.bytes) + " bytes from NPU " + std::to_string(message.source) +
                         " to NPU " + std::to_string(message.destination) + " cannot be sent; expected two of " +
                         std::to_string(plan_.npus) + " NPUs");
  }
  if (message.source == message.destination) {
    throw InvalidMessage("a message from NPU " + std::to_string(message.source) + " to itself has no route");
  }
  const auto port = static_cast<std::uint16_t>(10'000 + flows_.count(message.source, message.destination));
  Start start{message, time, port, settings_.start_rounds};
  start.message.bytes = std::max<std::int64_t>(1, message.bytes);
  if (player_.plays()) {
    if (player_.post(pending(start, player_.began()), start)) return;
    leave();
  }
  post(start);
}

void Network::post(const Start& start) {
  auto number = static_cast<std::uint32_t>(starts_.size());
  if (free_starts_.empty()) {
    starts_.push_back(start);
  } else {
    number = free_starts_.back();
    free_starts_.pop_back();
    starts_[number] = start;
  }
  events_.at(start.time, EventKind::start, number);
  ++starting_;
  ++undelivered_;
  if (recorder_.records()) recorder_.post(pending(start, recorder_.began()), start);
}

bool Network::advance(Tick until) {
  for (bool delivered = false;;) {
    endpoints_.delivered.clear();
    if (player_.plays() && play(until, delivered)) return delivered;
    const Reached reached = run(until);
    if (reached != Reached::idle) return reached == Reached::delivery;
  }
}

inline void Network::prefetch(EventRef event) const {
  if (event.what() == EventKind::arrival) {
    packets_.prefetch(event.subject());
    switches_.prefetch(event.link());
  } else if (event.what() == EventKind::port_free) {
    wires_.prefetch(event.subject());
    wires_.leaves_npu(event.subject()) ? nics_.prefetch(event.subject()) : switches_.prefetch_port(event.subject());
  }
}

inline void Network::prefetch_dependents(EventRef event) const {
  if (event.what() == EventKind::arrival) {
    const Packet& packet = packets_[event.subject()];
    if (packet.flow == kNone) return;
    if (wires_.enters_npu(event.link())) {
      flows_.prefetch(packet.flow);
    } else {
      const LinkId port = path_choices_.expected(packet);
      if (port == kNone) return;
      switches_.prefetch_port(port);
      wires_.prefetch(port);
    }
  } else if (event.what() == EventKind::port_free && wires_.leaves_npu(event.subject())) {
    nics_.prefetch_further(event.subject());
  }
}

inline void Network::arrive(LinkId link, PacketId id) {
  const Packet& packet = packets_[id];
  wires_.arrives();
  idle_timeouts_ = 0;
  if (packet.flow == kNone) {
    if (wires_.is_up(link)) take_pause(link, packet);
    return packets_.give_back(id);
  }
  if (wires_.loses(link) && (!wires_.is_up(link) || random_.share() < wires_.error_rate(link))) {
    ++monitor_.losses;
    flows_.drop(packet.flow);
    return packets_.give_back(id);
  }
  wires_.enters_npu(link) ? endpoints_.take(id) : switches_.take(link, id);
}

inline void Network::dispatch(EventRef event) {
  if (event.what() == EventKind::arrival) return arrive(event.link(), event.subject());
  switch (event.what()) {
    case EventKind::port_free:
      wires_.reported(event.subject());
      wires_.leaves_npu(event.subject()) ? nics_.serve(event.subject()) : switches_.serve(event.subject());
      return;
    case EventKind::wake:
      return nics_.woken(event.subject());
    case EventKind::start:
      return start(event.subject());
    case EventKind::timeout:
      if (!endpoints_.timeout(event.subject())) give_up();
      return;
    case EventKind::failure:
      return fail(plan_.failures[event.subject()]);
    case EventKind::nothing:
      return;
    default:
      ring(event.subject(), event.what());
      flows_.drop(event.subject());
  }
}

Network::Reached Network::run(Tick until) {
  endpoints_.delivered.clear();
  while (!events_.empty() && events_.first_time() <= until) {
    const EventRef event = events_.first();
    for (const BucketEvent& next : events_.soon()) prefetch(next.thing);
    if (const BucketEvent* next = events_.ahead(kFar)) prefetch(next->thing);
    if (const BucketEvent* next = events_.ahead(kNear)) prefetch_dependents(next->thing);
    if (until == kNever && !moves()) look_for_an_end(event);
    if (event.what() == EventKind::start && repeats_ && repeats()) return Reached::idle;
    samples_.upto(events_.first_time(), switches_.queues());
    events_.begin();
    dispatch(event);
    if (events_.current() <= first_order_ && event.what() != EventKind::start) ++older_events_;
    step(std::max(reached_, events_.now()));
    if (!endpoints_.delivered.empty()) {
      for (const Delivery& each : endpoints_.delivered) undelivered_ -= each.sent ? 1 : 0;
      if (recorder_.records()) note_delivery();
      return Reached::delivery;
    }
  }
  if (until == kNever && undelivered_ > 0) give_up();
  if (recorder_.records()) recorder_.wait(until);
  return Reached::end;
}

void Network::ring(FlowId id, EventKind timer) {
  const Flow& flow = flows_[id];
  if (!flow.under_way) return;
  const std::int64_t rate = flow.rate;
  congestion_->timer(id, timer);
  if (flow.rate != rate) nics_.update(id);
}

void Network::take_pause(LinkId link, const Packet& packet) {
  const LinkId port = plan_.reverse[link];
  const NodeId node = plan_.links[link].target;
  const bool pause = packet.kind == Kind::pause;
  const std::uint32_t queue = packet.payload;
  ++monitor_.pause_frames;
  if (monitor_.keeps_pauses) monitor_.pauses.push_back({events_.now(), node, port, pause});
  if (node < plan_.npus) {
    pause ? nics_.pause(port, queue) : nics_.resume(port, queue);
  } else {
    pause ? switches_.pause(port, queue) : switches_.resume(port, queue);
  }
}

void Network::start(std::uint32_t number) {
  Start& begun = starts_[number];
  if (begun.rounds > 0) {
    --begun.rounds;
    return events_.at(events_.now(), EventKind::start, number);
  }
  const MessageSpec message = begun.message;
  const FlowId id = flows_.take();
  Flow& flow = flows_[id];
  flow.number = message.number;
  flow.bytes = message.bytes;
  flow.source = message.source;
  flow.destination = message.destination;
  flow.source_port = begun.port;
  flow.queue = message.queue;
  flow.sent = begun.time;
  flow.started = flow.next_time = flow.progress = events_.now();
  free_starts_.push_back(number);
  --starting_;
  flow.nic = path_choices_.interface(flow, false);
  if (flow.nic == kNone) {
    throw InvalidMessage("there is no route from NPU " + std::to_string(flow.source) + " to NPU " + std::to_string(flow.destination));
  }
  flow.rate = flow.line_rate = wires_.rate(flow.nic);
  const bool common = settings_.common_window;
  flow.round_trip_ns = common ? routes_.longest_round_trip_ns() : routes_.round_trip_ns(flow.source, flow.destination);
  if (settings_.windows) {
    flow.window = common ? routes_.largest_product_bytes() : routes_.product_bytes(flow.source, flow.destination);
    flow.window = std::max<std::int64_t>(1, flow.window);
    if (settings_.goes_around()) flow.window *= 2;  // there and on
  }
  path_choices_.begin(id);
  congestion_->begin(id);
  nics_.add(id);
}

void Network::fail(const Failure& failure) {
  --failures_left_;
  std::vector<bool> up(plan_.links.size(), true);
  std::vector<FlowId> pairs;
  std::vector<PacketId> acks;
  for (LinkId link = 0; link < plan_.links.size(); ++link) {
    const NodeId source = plan_.links[link].source;
    const NodeId target = plan_.links[link].target;
    const bool failed = (source == failure.one && target == failure.other) || (source == failure.other && target == failure.one);
    if (failed) wires_.fail(link);
    up[link] = wires_.is_up(link);
  }
  routes_.find(up);
  path_choices_.forget();
  for (LinkId link = 0; link < plan_.links.size(); ++link) {
    if (up[link]) continue;
    plan_.links[link].source < plan_.npus ? nics_.fail(link, pairs, acks) : switches_.fail(link);
  }
  for (const FlowId id : pairs) {
    Flow& flow = flows_[id];
    const LinkId nic = path_choices_.interface(flow, false);
    if (flow.under_way && nic == kNone) {
      throw Deadlock("NPU " + std::to_string(flow.source) + " has lost its last way to NPU " + std::to_string(flow.destination) +
                     ", while a message was under way");
    }
    if (flow.under_way) {
      flow.nic = nic;
      nics_.add(id);
    }
    flows_.drop(id);
  }
  for (const PacketId id : acks) {
    const LinkId nic = path_choices_.interface(flows_[packets_[id].flow], true);
    if (nic != kNone) {
      nics_.acknowledge(nic, id);
    } else {
      ++monitor_.losses;
      flows_.drop(packets_[id].flow);
      packets_.give_back(id);
    }
  }
}

void Network::look_for_an_end(EventRef event) {
  if (undelivered_ == 0 || failures_left_ > 0) return;
  if (settings_.retransmission == 0) give_up();
  if (event.what() != EventKind::timeout || !flows_[event.subject()].under_way) return;  // messages that have ended leave theirs behind
  if (++idle_timeouts_ > 2 * flows_.under_way() + 2) give_up();
}

void Network::give_up() const { throw Deadlock(explain_deadlock(*this)); }

}  // namespace astra::roce
