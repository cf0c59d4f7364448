// The network skips periods that it is known to repeat: from one idle moment to the next (see period.hpp).
#include <algorithm>
#include <bit>
#include <utility>

#include "network.hpp"

namespace astra::roce {
namespace {

constexpr std::uint64_t kEventsOfLink = 32;    // the events of a period for each link, such that looking at all links costs little,
constexpr std::uint64_t kEventsOfWaiting = 8;  // and for each event that waits at its start

bool is_timer(EventKind what) {
  return what == EventKind::alpha || what == EventKind::decrease || what == EventKind::increase || what == EventKind::timeout;
}

}  // namespace

bool Network::repeats() {
  if (catches_up_ || events_.count() < next_look_ || failures_left_ > 0 || packets_.used() > 0 || flows_.under_way() > 0) return false;
  const Tick now = events_.first_time();
  std::vector<Start> waiting;
  std::vector<Tick> timers;
  std::vector<Tick> older;
  if (!look_at_events(waiting, timers, older)) return false;
  if (auto period = recorder_.end(now, timers, waiting, period_state(), monitor_, links_met_, nodes_met_)) player_.keep(std::move(period));
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

void Network::record(Tick now, std::vector<PendingSend> pending, const std::vector<Start>& waiting) {
  next_look_ = events_.count() + kEventsOfLink * plan_.links.size() + kEventsOfWaiting * events_.waiting();
  first_order_ = events_.last_order();
  recorder_.begin(now, std::move(pending), waiting, period_state(), monitor_);
  switches_.queues().start_peaks();
}

bool Network::look_at_events(std::vector<Start>& waiting, std::vector<Tick>& timers, std::vector<Tick>& older) const {
  if (nics_.sleeping() > 0) return false;
  for (const Event& event : events_.all()) {
    if (event.what == EventKind::start) {
      waiting.push_back(starts_[event.subject]);
    } else if (is_timer(event.what) || event.what == EventKind::wake || event.what == EventKind::nothing) {
      (event.order <= first_order_ ? older : timers).push_back(event.time);
    } else {
      return false;
    }
  }
  return true;
}

PeriodState Network::period_state() const {
  PeriodState period_state{{}, random_.drawn(), {monitor_, events_.count() - older_events_, {}}};
  Snapshot snapshot;
  for (LinkId link = 0; link < plan_.links.size(); ++link) {
    nics_.snapshot(link, snapshot);
    switches_.snapshot(link, snapshot);
    period_state.totals.links.push_back({wires_.bytes_sent(link), wires_.busy(link), switches_.queues().peak(link)});
  }
  for (NodeId node = plan_.npus; node < plan_.nodes; ++node) switches_.snapshot_node(node, snapshot);
  period_state.state = snapshot.take();
  return period_state;
}

std::vector<PendingSend> Network::label(const std::vector<Start>& waiting, Tick now) {
  links_met_.clear();
  nodes_met_.clear();
  std::vector<PendingSend> all;
  for (const Start& each : waiting) all.push_back(pending(each, now));
  return all;
}

PendingSend Network::pending(const Start& start, Tick began) {
  const MessageSpec& message = start.message;
  PendingSend pending{start.time - began, start.rounds, message.bytes, message.queue, {}};
  Flow flow;
  flow.source = message.source;
  flow.destination = message.destination;
  flow.source_port = start.port;
  if (!settings_.common_window) {
    pending.way = {routes_.round_trip_ns(flow.source, flow.destination), routes_.product_bytes(flow.source, flow.destination)};
  }
  for (const LinkId link : path_choices_.path(flow)) {
    meet(link, pending.way);
    meet(plan_.reverse[link], pending.way);  // for pauses
  }
  return pending;
}

void Network::meet(LinkId link, std::vector<std::int64_t>& way) {
  const std::uint32_t links = links_met_.count();
  way.push_back(links_met_.meet(link));
  if (links_met_.count() == links) return;
  const LinkSpec& spec = plan_.links[link];
  Snapshot snapshot;
  for (const NodeId node : {spec.source, spec.target}) {
    const std::uint32_t nodes = nodes_met_.count();
    snapshot.put(nodes_met_.meet(node));
    if (nodes_met_.count() == nodes) continue;
    snapshot.put(node < plan_.npus ? 1 : 0);
    if (node >= plan_.npus) switches_.snapshot_node(node, snapshot);
  }
  wires_.snapshot(link, snapshot);
  nics_.snapshot(link, snapshot);
  switches_.snapshot(link, snapshot);
  for (const std::int64_t mark : {spec.mark_from, spec.mark_all, std::bit_cast<std::int64_t>(spec.mark_share)}) snapshot.put(mark);
  snapshot.append_to(way);
}

void Network::stop_events() {
  for (const Event& event : events_.all()) {
    if (is_timer(event.what)) flows_.drop(event.subject);
  }
  events_.clear();
  starts_.clear();
  free_starts_.clear();
  starting_ = undelivered_ = 0;
}

void Network::note_delivery() {
  // All that one packet brings is of its message.
  const std::vector<Delivery>& all = endpoints_.delivered;
  const bool arrived = std::any_of(all.begin(), all.end(), [](const Delivery& each) { return !each.sent; });
  const bool sent = std::any_of(all.begin(), all.end(), [](const Delivery& each) { return each.sent; });
  recorder_.deliver(events_.now(), all.front().number, arrived, sent);
}

bool Network::play(Tick until, bool& delivered) {
  for (;;) {
    switch (player_.advance(until)) {
      case Player::Answer::waits:
        delivered = false;
        return true;
      case Player::Answer::delivers: {
        const Step& step = player_.delivery();
        const std::uint64_t number = player_.message(step.message).message.number;
        if (step.arrived) endpoints_.delivered.push_back({number, false});
        if (step.sent) endpoints_.delivered.push_back({number, true});
        reached_ = player_.now();
        this->step(reached_);
        delivered = true;
        return true;
      }
      case Player::Answer::ends: {
        count_period();
        const Tick now = player_.end();
        std::vector<Start> waiting = player_.waiting();
        std::vector<PendingSend> pending = label(waiting, now);
        if (player_.begin(now, std::move(pending), std::move(waiting))) continue;
        break;
      }
      case Player::Answer::differs:
        break;
    }
    leave();
    return false;
  }
}

void Network::count_period() {
  const Period& period = player_.period();
  const Tick began = player_.began();
  monitor_.add(period.totals.counters);
  played_events_ += period.totals.events + player_.pass_timers(player_.end());
  for (const Tick time : period.timers) player_.add_timer(player_.end() + time);
  for (std::uint32_t label = 0; label < period.totals.links.size(); ++label) {
    const LinkTotal& total = period.totals.links[label];
    const LinkId link = links_met_.thing(label);
    wires_.add(link, total.bytes, total.busy);
    switches_.queues().raise(link, total.highest);
  }
  for (const FlowRecord& each : period.flows) {
    const Start& start = player_.message(each.number);
    FlowRecord record = each.later(began);
    record.number = start.message.number;
    record.source = start.message.source;
    record.destination = start.message.destination;
    record.source_port = start.port;
    monitor_.flows.push_back(record);
  }
  for (const PauseRecord& each : period.pauses) {
    monitor_.pauses.push_back({each.time + began, nodes_met_.thing(each.node), links_met_.thing(each.port), each.pause});
  }
}

void Network::leave() {
  const Played played = player_.leave();
  const auto waiting = static_cast<std::ptrdiff_t>(played.waiting);
  const std::vector<Start> first(played.messages.begin(), played.messages.begin() + waiting);
  for (const Tick time : played.timers) events_.at(time, EventKind::nothing, 0);
  for (const Start& each : first) post(each);
  record(played.began, label(first, played.began), first);
  catches_up_ = true;
  for (const Step& step : played.steps) {
    if (step.kind == Step::Kind::delivery) {
      run(kNever);
      continue;
    }
    if (step.time != Step::kNothing) run(played.began + step.time);
    post(played.messages[step.message]);
  }
  if (played.upto >= 0) run(played.upto);
  catches_up_ = false;
  endpoints_.delivered.clear();
}

}  // namespace astra::roce
