#include "recorder.hpp"

namespace astra::roce {

void Recorder::stop() {
  period_.reset();
  places_.clear();
}

void Recorder::begin(Tick now, std::vector<Posted> posted, const std::vector<Start>& waiting, Standing standing, const Monitor& monitor) {
  stop();
  period_ = std::make_shared<Period>();
  period_->waiting = std::move(posted);
  standing_ = std::move(standing);
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

void Recorder::post(Posted posted, const Start& start) {
  period_->posted.push_back(std::move(posted));
  places_[start.message.number] = messages_;
  add({Step::Kind::post, false, false, messages_++, upto_ < 0 ? Step::kNothing : upto_ - began_});
}

void Recorder::deliver(Tick now, std::uint64_t number, bool arrived, bool sent) {
  upto_ = -1;
  add({Step::Kind::delivery, arrived, sent, places_.at(number), now - began_});
}

std::shared_ptr<const Period> Recorder::end(Tick now, const std::vector<Tick>& timers, const std::vector<Start>& waiting,
                                            const Standing& standing, const Monitor& monitor, const Labels& links, const Labels& nodes) {
  if (!records() || standing.random != standing_.random || standing.state != standing_.state) return nullptr;
  if (!count_links(standing.totals, links)) return nullptr;
  Period& period = *period_;
  period.length = now - began_;
  for (const Tick time : timers) period.timers.push_back(time - now);
  for (const Start& each : waiting) period.left.push_back({places_.at(each.message.number), each.rounds});
  period.totals.counters = standing.totals.counters.since(standing_.totals.counters);
  period.totals.events = standing.totals.events - standing_.totals.events;
  for (std::size_t place = first_flow_; place < monitor.flows.size(); ++place) {
    FlowRecord record = monitor.flows[place].later(-began_);
    record.number = places_.at(record.number);
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
    const LinkTotal& before = standing_.totals.links[link];
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
