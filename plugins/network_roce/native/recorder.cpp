#include "recorder.hpp"

namespace astra::roce {

void Recorder::stop() {
  period_.reset();
  places_.clear();
}

void Recorder::begin(Tick now, std::vector<PendingSend> pending, const std::vector<Start>& waiting, PeriodState period_state,
                     const Monitor& monitor) {
  stop();
  period_ = std::make_shared<Period>();
  period_->waiting = std::move(pending);
  period_state_ = std::move(period_state);
  began_ = now;
  upto_ = -1;
  messages_ = 0;
  for (const Start& each : waiting) places_[each.message.number] = messages_++;
  first_flow_ = monitor.flows.size();
  first_pause_ = monitor.pauses.size();
}

void Recorder::add(const Step& step) {
  period_->steps.push_back(step);
  if (period_->steps.size() > kMostSteps) stop();
}

void Recorder::post(PendingSend pending, const Start& start) {
  period_->pending.push_back(std::move(pending));
  places_[start.message.number] = messages_;
  add({Step::Kind::post, false, false, messages_++, upto_ < 0 ? Step::kNothing : upto_ - began_});
}

void Recorder::deliver(Tick now, std::uint64_t number, bool arrived, bool sent) {
  upto_ = -1;
  add({Step::Kind::delivery, arrived, sent, places_.at(number), now - began_});
}

std::shared_ptr<const Period> Recorder::end(Tick now, const std::vector<Tick>& timers, const std::vector<Start>& waiting,
                                            const PeriodState& period_state, const Monitor& monitor, const Labels& links,
                                            const Labels& nodes) {
  if (!records() || period_state.random != period_state_.random || period_state.state != period_state_.state) return nullptr;
  if (!count_links(period_state.totals, links)) return nullptr;
  Period& period = *period_;
  period.length = now - began_;
  for (const Tick time : timers) period.timers.push_back(time - now);
  for (const Start& each : waiting) period.left.push_back({places_.at(each.message.number), each.rounds});
  period.totals.counters = period_state.totals.counters.since(period_state_.totals.counters);
  period.totals.events = period_state.totals.events - period_state_.totals.events;
  for (std::size_t place = first_flow_; place < monitor.flows.size(); ++place) {
    FlowRecord record = monitor.flows[place].later(-began_);
    record.number = places_.at(record.number);
    record.first = places_.at(record.first);
    period.flows.push_back(record);
  }
  for (std::size_t place = first_pause_; place < monitor.pauses.size(); ++place) {
    const PauseRecord& record = monitor.pauses[place];
    period.pauses.push_back({record.time - began_, nodes.known(record.node), links.known(record.port), record.pause});
  }
  return std::move(period_);
}

bool Recorder::count_links(const Totals& now, const Labels& links) {
  std::vector<LinkTotal>& totals = period_->totals.links;
  totals.resize(links.count());
  for (LinkId link = 0; link < now.links.size(); ++link) {
    const LinkTotal& before = period_state_.totals.links[link];
    const LinkTotal& after = now.links[link];
    const LinkTotal total{after.bytes - before.bytes, after.busy - before.busy, after.highest};
    if (total == LinkTotal{}) continue;
    const std::uint32_t label = links.known(link);
    if (label == kNone) return false;
    totals[label] = total;
  }
  return true;
}

}  // namespace astra::roce
