#include "queues.hpp"

#include <algorithm>
#include <string>

#include "errors.hpp"

namespace astra::engine {

Queue::Queue(Host& host, QueueId number, std::int64_t slots, std::size_t npus)
    : host_(host), number_(number), slots_(slots), running_(npus) {
  if (slots < 1) invalid("a queue of " + std::to_string(slots) + " slots; expected at least 1");
}

StepId Queue::start(NpuId npu, Key wanted) {
  if (running_[npu] >= slots_) return kNone;
  const StepId step = wanted == kNoKey ? next(npu) : take(npu, wanted);
  if (step != kNone) ++running_[npu];
  return step;
}

void Queue::leave(NpuId npu, StepId) { --running_[npu]; }

// -- orders that are functions ----------------------------------------------------------------------------------------

void AskedQueue::enter(NpuId npu, StepId step, Key key, const Job& job) {
  const std::uint32_t place = place_of(npu, job);
  Npu& own = npus_[npu];
  own.jobs.insert(own.jobs.begin() + place, job);
  own.steps.insert(own.steps.begin() + place, step);
  own.keys.insert(own.keys.begin() + place, key);
}

void AskedQueue::leave(NpuId npu, StepId step) {
  Queue::leave(npu, step);
  Npu& own = npus_[npu];
  const auto place = std::find(own.steps.begin(), own.steps.end(), step) - own.steps.begin();
  own.steps.erase(own.steps.begin() + place);
  own.jobs.erase(own.jobs.begin() + place);
  own.keys.erase(own.keys.begin() + place);
}

StepId AskedQueue::next(NpuId npu) {
  const Npu& own = npus_[npu];
  return running(npu) < own.steps.size() ? own.steps[running(npu)] : kNone;
}

StepId AskedQueue::take(NpuId npu, Key key) {
  Npu& own = npus_[npu];
  const auto first = narrow<std::ptrdiff_t>(running(npu));
  const auto place = std::find(own.keys.begin() + first, own.keys.end(), key) - own.keys.begin();
  if (place == narrow<std::ptrdiff_t>(own.keys.size())) return kNone;
  // A running job stays in front.
  const auto move = [&](auto& of_all) { std::rotate(of_all.begin() + first, of_all.begin() + place, of_all.begin() + place + 1); };
  move(own.steps);
  move(own.jobs);
  move(own.keys);
  return at(own.steps, first);
}

std::uint32_t AskedQueue::place_of(NpuId npu, const Job& job) {
  const std::deque<Job>& jobs = npus_[npu].jobs;
  if (jobs.empty()) {
    if (job.job_class >= known_first_.size()) known_first_.resize(job.job_class + std::size_t{1});
    if (!known_first_[job.job_class]) ask(npu, job);
    known_first_[job.job_class] = true;
    return 0;
  }
  if (jobs.size() > kShort) return ask(npu, job);
  make_key(npu, job);
  const auto known = places_.find(key_);
  if (known != places_.end()) return known->second;
  const std::uint32_t place = ask(npu, job);
  words_ += key_.size();
  if (words_ > kRememberedWords) {
    places_.clear();
    words_ = key_.size();
  }
  places_.emplace(key_, place);
  return place;
}

std::uint32_t AskedQueue::ask(NpuId npu, const Job& job) {
  const std::deque<Job>& jobs = npus_[npu].jobs;
  const std::uint32_t place = host().place(number(), jobs, running(npu), job);
  if (place < running(npu) || place > jobs.size()) invalid("a queue's order gave a place outside of the queue");
  return place;
}

void AskedQueue::make_key(NpuId npu, const Job& job) {
  const std::deque<Job>& jobs = npus_[npu].jobs;
  const bool alike = std::all_of(jobs.begin(), jobs.end(), [&](const Job& other) { return other.priority == job.priority; });
  priorities_.clear();
  if (!alike) {
    priorities_.push_back(job.priority);
    for (const Job& other : jobs) priorities_.push_back(other.priority);
    std::sort(priorities_.begin(), priorities_.end());
    priorities_.erase(std::unique(priorities_.begin(), priorities_.end()), priorities_.end());
  }
  const auto add = [&](const Job& one) {
    key_.push_back(one.job_class);
    if (!alike) {
      const auto place = std::lower_bound(priorities_.begin(), priorities_.end(), one.priority);
      key_.push_back(narrow<std::uint32_t>(place - priorities_.begin()));
    }
  };
  key_.assign({running(npu), alike});
  add(job);
  for (const Job& other : jobs) add(other);
}

std::size_t AskedQueue::HashWords::operator()(const std::vector<std::uint32_t>& words) const {
  std::uint64_t hash = words.size();
  for (const std::uint32_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

// -- orders of rules --------------------------------------------------------------------------------------------------

void RuledQueue::enter(NpuId npu, StepId step, Key key, const Job& job) {
  auto known = standings_.find(job.job_class);
  if (known == standings_.end()) {
    Standing standing = host().standing(number(), job.job_class);
    if (standing.rule >= rules_.size() || standing.marks.size() != rules_.size()) invalid("a job that no rule places");
    known = standings_.emplace(job.job_class, std::move(standing)).first;
  }
  const Standing& standing = known->second;
  marks_ = standing.marks;
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    if (rules_[rule].by_priority) marks_[rule].key = -job.priority;
  }
  const Rule& rule = rules_[standing.rule];
  const Time limit = marks_[standing.rule].key - (rule.before_equal ? 1 : 0);
  const std::uint32_t place = waiting_.place(trees_[npu], standing.rule, limit, rule.in_turn && running(npu) > 0);
  const Waiting::Tree node = waiting_.insert(trees_[npu], place, {step, key}, marks_);
  if (key == kNoKey) return;
  if (nodes_.empty()) nodes_.resize(trees_.size());
  nodes_[npu].emplace(key, node);
}

StepId RuledQueue::next(NpuId npu) {
  if (trees_[npu] == kNone) return kNone;
  const Waiting::Entry entry = waiting_.pop(trees_[npu]);
  if (entry.key != kNoKey) nodes_[npu].erase(entry.key);
  return entry.step;
}

StepId RuledQueue::take(NpuId npu, Key key) {
  if (nodes_.empty()) return kNone;
  const auto position = nodes_[npu].find(key);
  if (position == nodes_[npu].end()) return kNone;
  const StepId step = waiting_.take(trees_[npu], position->second).step;
  nodes_[npu].erase(position);
  return step;
}

std::unique_ptr<Queue> make_queue(Host& host, QueueId number, const QueuePlan& plan, std::size_t npus) {
  if (plan.rules.empty()) return std::make_unique<AskedQueue>(host, number, plan.slots, npus);
  return std::make_unique<RuledQueue>(host, number, plan, npus);
}

}  // namespace astra::engine
