#include "network.hpp"

#include <algorithm>
#include <utility>

namespace astra::roce {
namespace {

// Events before its own at which an event's data is prefetched: what it needs first, second and third.
constexpr std::size_t kFirst = 10;
constexpr std::size_t kSecond = 6;
constexpr std::size_t kThird = 3;
static_assert(kFirst <= BucketTurn::kAhead);

}  // namespace

Network::Network(Settings settings, Plan plan)
    : parts_(std::move(settings), std::move(plan)), prefetcher_(parts_), failures_(parts_), repetition_(parts_) {}

void Network::inject(Tick time, const MessageSpec& message) {
  if (message.source >= parts_.plan.npus || message.destination >= parts_.plan.npus || message.bytes < 0) {
    throw InvalidMessage("a message of " + std::to_string(message.bytes) + " bytes from NPU " + std::to_string(message.source) +
                         " to NPU " + std::to_string(message.destination) + " cannot be sent; expected two of " +
                         std::to_string(parts_.plan.npus) + " NPUs");
  }
  if (message.source == message.destination) {
    throw InvalidMessage("a message from NPU " + std::to_string(message.source) + " to itself has no route");
  }
  const auto port = static_cast<std::uint16_t>(10'000 + parts_.flows.count(message.source, message.destination));
  Start start{message, time, port, parts_.settings.start_rounds};
  start.message.bytes = std::max<std::int64_t>(1, message.bytes);
  if (repetition_.plays()) {
    if (repetition_.play_start(start)) return;
    catch_up();
  }
  post(start);
}

void Network::post(const Start& start) {
  parts_.starts.add(start);
  repetition_.note_start(start);
}

bool Network::advance(Tick until) {
  for (;;) {
    parts_.endpoints.delivered.clear();
    if (repetition_.plays()) {
      const Player::Answer answer = repetition_.play(until);
      if (answer == Player::Answer::waits) return false;
      if (answer == Player::Answer::delivers) {
        reached_ = repetition_.now();
        step(reached_);
        return true;
      }
      catch_up();
    }
    const Reached reached = run(until);
    if (reached != Reached::idle) return reached == Reached::delivery;
  }
}

void Network::catch_up() {
  const Played played = repetition_.leave();
  for (const Step& step : played.steps) {
    if (step.kind == Step::Kind::delivery) {
      run(kNever);
      continue;
    }
    if (step.time != Step::kNothing) run(played.began + step.time);
    post(played.messages[step.message]);
  }
  if (played.upto >= 0) run(played.upto);
  repetition_.caught_up();
  parts_.endpoints.delivered.clear();
}

inline void Network::arrive(LinkId link, PacketId id, bool ends) {
  const Packet& packet = parts_.packets[id];
  parts_.wires.arrives();
  idle_timeouts_ = 0;
  if (packet.flow == kNone) {
    if (parts_.wires.is_up(link)) take_pause(link, packet);
    return parts_.packets.give_back(id);
  }
  if (parts_.wires.loses(link) && (!parts_.wires.is_up(link) || parts_.random.share() < parts_.wires.error_rate(link))) {
    ++parts_.monitor.losses;
    parts_.flows.drop(packet.flow);
    return parts_.packets.give_back(id);
  }
  ends ? parts_.endpoints.take(id) : parts_.switches.take(link, id);
}

inline void Network::dispatch(EventRef event) {
  switch (event.what()) {
    case EventKind::arrival:
      return arrive(event.link(), event.subject(), false);
    case EventKind::end:
      return arrive(event.link(), event.subject(), true);
    case EventKind::port_free:
      parts_.wires.reported(event.subject());
      return parts_.switches.serve(event.subject());
    case EventKind::nic_free:
      parts_.wires.reported(event.subject());
      return parts_.nics.serve(event.subject());
    case EventKind::wake:
      return parts_.nics.woken(event.subject());
    case EventKind::start:
      return parts_.starts.take(event.subject());
    case EventKind::timeout:
      if (!parts_.endpoints.timeout(event.subject())) give_up();
      return;
    case EventKind::failure:
      return failures_.happen(event.subject());
    case EventKind::nothing:
      return;
    default:
      ring(event.subject(), event.what());
      parts_.flows.drop(event.subject());
  }
}

Network::Reached Network::run(Tick until) {
  parts_.endpoints.delivered.clear();
  while (!parts_.events.empty() && parts_.events.first_time() <= until) {
    const EventRef event = parts_.events.first();
    if (prefetcher_.ready()) {
      for (const BucketEvent& next : parts_.events.soon()) prefetcher_.first(next.thing);
      prefetcher_.first(parts_.events.ahead(kFirst));
      prefetcher_.second(parts_.events.ahead(kSecond));
      prefetcher_.third(parts_.events.ahead(kThird));
    }
    if (until == kNever && !parts_.moves()) look_for_an_end(event);
    if (event.what() == EventKind::start && failures_.left() == 0 && repetition_.begins()) return Reached::idle;
    samples_.upto(parts_.events.first_time(), parts_.switches.queues());
    parts_.events.begin();
    dispatch(event);
    repetition_.note_event(parts_.events.current(), event.what());
    step(std::max(reached_, parts_.events.now()));
    if (!parts_.endpoints.delivered.empty()) {
      repetition_.note_deliveries();
      return Reached::delivery;
    }
  }
  if (until == kNever && parts_.undelivered() > 0) give_up();
  repetition_.note_wait(until);
  return Reached::end;
}

void Network::ring(FlowId id, EventKind timer) {
  const Flow& flow = parts_.flows[id];
  if (!flow.under_way) return;
  const std::int64_t rate = flow.rate;
  parts_.congestion->timer(id, timer);
  if (flow.rate != rate) parts_.nics.update(id);
}

void Network::take_pause(LinkId link, const Packet& packet) {
  const LinkId port = parts_.plan.reverse[link];
  const NodeId node = parts_.plan.links[link].target;
  const bool pause = packet.kind == Kind::pause;
  const std::uint32_t queue = packet.payload;
  ++parts_.monitor.pause_frames;
  if (parts_.monitor.keeps_pauses) parts_.monitor.pauses.push_back({parts_.events.now(), node, port, pause});
  if (node < parts_.plan.npus) {
    pause ? parts_.nics.pause(port, queue) : parts_.nics.resume(port, queue);
  } else {
    pause ? parts_.switches.pause(port, queue) : parts_.switches.resume(port, queue);
  }
}

void Network::look_for_an_end(EventRef event) {
  if (parts_.undelivered() == 0 || failures_.left() > 0) return;
  if (parts_.settings.retransmission == 0) give_up();
  if (event.what() != EventKind::timeout || !parts_.flows[event.subject()].under_way)
    return;  // messages that have ended leave theirs behind
  if (++idle_timeouts_ > 2 * parts_.flows.under_way() + 2) give_up();
}

void Network::give_up() const { throw Deadlock(explain_deadlock(parts_)); }

}  // namespace astra::roce
