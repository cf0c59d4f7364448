#include "repetition.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace astra::roce {
namespace {

constexpr std::uint64_t kEventsOfLink = 32;    // the events of a period for each link, such that looking at all links costs little,
constexpr std::uint64_t kEventsOfWaiting = 8;  // and for each event that waits at its start

bool is_timer(EventKind what) {
  return what == EventKind::alpha || what == EventKind::decrease || what == EventKind::increase || what == EventKind::timeout;
}

}  // namespace

// HPCC and PINT see a port's total of sent bytes.
Repetition::Repetition(Parts& parts)
    : parts_(parts),
      enabled_(parts.settings.extrapolate && parts.settings.balancing == Balancing::ecmp && parts.settings.algorithm != Algorithm::hpcc &&
               parts.settings.algorithm != Algorithm::pint) {}

bool Repetition::begins() {
  if (!enabled_ || catches_up_ || parts_.events.count() < next_look_) return false;
  if (parts_.packets.used() > 0 || parts_.flows.under_way() > 0) return false;
  const Tick now = parts_.events.first_time();
  std::vector<Start> waiting;
  std::vector<Tick> timers;
  std::vector<Tick> older;
  if (!look_at_events(waiting, timers, older)) return false;
  if (auto period = recorder_.end(now, timers, waiting, period_state(), parts_.monitor, links_met_, nodes_met_))
    player_.keep(std::move(period));
  std::vector<PendingSend> pending = label(waiting, now);
  if (player_.begin(now, pending, waiting)) {
    for (const std::vector<Tick>& times : {timers, older}) {
      for (const Tick time : times) player_.add_timer(time);
    }
    recorder_.stop();
    stop_events();
    return true;
  }
  record(now, std::move(pending), waiting);
  return false;
}

void Repetition::record(Tick now, std::vector<PendingSend> pending, const std::vector<Start>& waiting) {
  next_look_ = parts_.events.count() + kEventsOfLink * parts_.plan.links.size() + kEventsOfWaiting * parts_.events.waiting();
  first_order_ = parts_.events.last_order();
  recorder_.begin(now, std::move(pending), waiting, period_state(), parts_.monitor);
  parts_.switches.queues().start_peaks();
}

bool Repetition::look_at_events(std::vector<Start>& waiting, std::vector<Tick>& timers, std::vector<Tick>& older) const {
  if (parts_.nics.sleeping() > 0) return false;
  for (const Event& event : parts_.events.all()) {
    if (event.what == EventKind::start) {
      waiting.push_back(parts_.starts[event.subject]);
    } else if (is_timer(event.what) || event.what == EventKind::wake || event.what == EventKind::nothing) {
      (event.order <= first_order_ ? older : timers).push_back(event.time);
    } else {
      return false;
    }
  }
  return true;
}

PeriodState Repetition::period_state() const {
  PeriodState period_state{{}, parts_.random.drawn(), {parts_.monitor, parts_.events.count() - older_events_, {}}};
  Snapshot snapshot;
  for (LinkId link = 0; link < parts_.plan.links.size(); ++link) {
    parts_.nics.snapshot(link, snapshot);
    parts_.switches.snapshot(link, snapshot);
    period_state.totals.links.push_back({parts_.wires.bytes_sent(link), parts_.wires.busy(link), parts_.switches.queues().peak(link)});
  }
  for (NodeId node = parts_.plan.npus; node < parts_.plan.nodes; ++node) parts_.switches.snapshot_node(node, snapshot);
  period_state.state = snapshot.take();
  return period_state;
}

std::vector<PendingSend> Repetition::label(const std::vector<Start>& waiting, Tick now) {
  links_met_.clear();
  nodes_met_.clear();
  connections_met_.clear();
  std::vector<PendingSend> all;
  for (const Start& each : waiting) all.push_back(pending(each, now));
  return all;
}

PendingSend Repetition::pending(const Start& start, Tick began) {
  const MessageSpec& message = start.message;
  PendingSend pending{start.time - began, start.rounds, message.bytes, message.queue, meet_connection(message), {}};
  Flow flow;
  flow.ends.source = message.source;
  flow.ends.destination = message.destination;
  flow.ends.source_port = start.port;
  if (!parts_.settings.common_window) {
    pending.way = {parts_.routes.round_trip_ns(flow.ends.source, flow.ends.destination),
                   parts_.routes.product_bytes(flow.ends.source, flow.ends.destination)};
  }
  for (const LinkId link : parts_.path_choices.path(flow)) {
    meet(link, pending.way);
    meet(parts_.plan.reverse[link], pending.way);  // for pauses
  }
  return pending;
}

std::uint32_t Repetition::meet_connection(const MessageSpec& message) {
  if (message.connection == 0) return kNone;
  const auto label = static_cast<std::uint32_t>(connections_met_.size());
  return connections_met_.try_emplace({message.connection, message.source, message.destination}, label).first->second;
}

void Repetition::meet(LinkId link, std::vector<std::int64_t>& way) {
  const std::uint32_t links = links_met_.count();
  way.push_back(links_met_.meet(link));
  if (links_met_.count() == links) return;
  const LinkSpec& spec = parts_.plan.links[link];
  Snapshot snapshot;
  for (const NodeId node : {spec.source, spec.target}) {
    const std::uint32_t nodes = nodes_met_.count();
    snapshot.put(nodes_met_.meet(node));
    if (nodes_met_.count() == nodes) continue;
    snapshot.put(node < parts_.plan.npus ? 1 : 0);
    if (node >= parts_.plan.npus) parts_.switches.snapshot_node(node, snapshot);
  }
  parts_.wires.snapshot(link, snapshot);
  parts_.nics.snapshot(link, snapshot);
  parts_.switches.snapshot(link, snapshot);
  for (const std::int64_t mark : {spec.mark_from, spec.mark_all, std::bit_cast<std::int64_t>(spec.mark_share)}) snapshot.put(mark);
  snapshot.append_to(way);
}

void Repetition::stop_events() {
  for (const Event& event : parts_.events.all()) {
    if (is_timer(event.what)) parts_.flows.drop(event.subject);
  }
  parts_.events.clear();
  parts_.starts.clear();
}

void Repetition::note_deliveries() {
  if (!recorder_.records()) return;
  const std::vector<Delivery>& all = parts_.endpoints.delivered;
  // All that one packet brings is of its message, but after a loss, which no period is worth to be recorded for.
  const auto other = [&](const Delivery& each) { return each.number != all.front().number; };
  if (std::any_of(all.begin(), all.end(), other)) return recorder_.stop();
  const bool arrived = std::any_of(all.begin(), all.end(), [](const Delivery& each) { return !each.sent; });
  const bool sent = std::any_of(all.begin(), all.end(), [](const Delivery& each) { return each.sent; });
  recorder_.deliver(parts_.events.now(), all.front().number, arrived, sent);
}

Player::Answer Repetition::play(Tick until) {
  for (;;) {
    const Player::Answer answer = player_.advance(until);
    if (answer == Player::Answer::delivers) {
      const Step& step = player_.delivery();
      const std::uint64_t number = player_.message(step.message).message.number;
      if (step.arrived) parts_.endpoints.delivered.push_back({number, false});
      if (step.sent) parts_.endpoints.delivered.push_back({number, true});
    }
    if (answer != Player::Answer::ends) return answer;
    count_period();
    const Tick now = player_.end();
    std::vector<Start> waiting = player_.waiting();
    std::vector<PendingSend> pending = label(waiting, now);
    if (!player_.begin(now, std::move(pending), std::move(waiting))) return Player::Answer::differs;
  }
}

bool Repetition::play_start(const Start& start) { return player_.post(pending(start, player_.began()), start); }

void Repetition::count_period() {
  const Period& period = player_.period();
  const Tick began = player_.began();
  parts_.monitor.add(period.totals.counters);
  played_events_ += period.totals.events + player_.pass_timers(player_.end());
  for (const Tick time : period.timers) player_.add_timer(player_.end() + time);
  for (std::uint32_t label = 0; label < period.totals.links.size(); ++label) {
    const LinkTotal& total = period.totals.links[label];
    const LinkId link = links_met_.thing(label);
    parts_.wires.add(link, total.bytes, total.busy);
    parts_.switches.queues().raise(link, total.highest);
  }
  for (const FlowRecord& each : period.flows) {
    const Start& start = player_.message(each.number);
    FlowRecord record = each.later(began);
    record.number = start.message.number;
    record.source = start.message.source;
    record.destination = start.message.destination;
    record.first = player_.message(each.first).message.number;
    record.source_port = player_.message(each.first).port;
    parts_.monitor.flows.push_back(record);
  }
  for (const PauseRecord& each : period.pauses) {
    parts_.monitor.pauses.push_back({each.time + began, nodes_met_.thing(each.node), links_met_.thing(each.port), each.pause});
  }
}

Played Repetition::leave() {
  Played played = player_.leave();
  const auto waiting = static_cast<std::ptrdiff_t>(played.waiting);
  const std::vector<Start> first(played.messages.begin(), played.messages.begin() + waiting);
  for (const Tick time : played.timers) parts_.events.at(time, EventKind::nothing, 0);
  for (const Start& each : first) parts_.starts.add(each);
  record(played.began, label(first, played.began), first);
  catches_up_ = true;
  return played;
}

}  // namespace astra::roce
