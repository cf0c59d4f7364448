#include "queues.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace astra {

std::unique_ptr<Queue> Queue::make(std::uint32_t number, const QueuePlan& plan, std::size_t npus) {
  if (plan.slots < 1) throw std::invalid_argument("a queue of " + std::to_string(plan.slots) + " slots; at least 1 is right");
  if (plan.rules.empty()) return std::make_unique<AskedQueue>(number, plan.slots, npus);
  return std::make_unique<RuledQueue>(number, plan, npus);
}

std::uint32_t Queue::start(std::uint32_t npu) {
  if (running_[npu] >= slots_) return kNone;
  const std::uint32_t chunk = next(npu);
  if (chunk != kNone) ++running_[npu];
  return chunk;
}

void Queue::leave(std::uint32_t npu, std::uint32_t chunk) {
  --running_[npu];
  gone(npu, chunk);
}

// -- orders that are functions ----------------------------------------------------------------------------------------

void AskedQueue::enter(Host& host, std::uint32_t npu, std::uint32_t chunk, const Job& job) {
  const std::uint32_t place = place_of(host, npu, job);
  Npu& own = npus_[npu];
  own.jobs.insert(own.jobs.begin() + place, job);
  own.chunks.insert(own.chunks.begin() + place, chunk);
}

std::uint32_t AskedQueue::next(std::uint32_t npu) {
  const Npu& own = npus_[npu];
  return running(npu) < own.chunks.size() ? own.chunks[running(npu)] : kNone;
}

void AskedQueue::gone(std::uint32_t npu, std::uint32_t chunk) {
  Npu& own = npus_[npu];
  const auto place = std::find(own.chunks.begin(), own.chunks.end(), chunk) - own.chunks.begin();
  own.chunks.erase(own.chunks.begin() + place);
  own.jobs.erase(own.jobs.begin() + place);
}

// The place of a new job. What the order has answered once about a short queue is remembered.
std::uint32_t AskedQueue::place_of(Host& host, std::uint32_t npu, const Job& job) {
  const std::deque<Job>& jobs = npus_[npu].jobs;
  if (jobs.empty()) {
    if (job.sort >= known_first_.size()) known_first_.resize(job.sort + std::size_t{1});
    if (!known_first_[job.sort]) ask(host, npu, job);
    known_first_[job.sort] = true;
    return 0;
  }
  if (jobs.size() > kShort) return ask(host, npu, job);
  make_key(npu, job);
  const auto known = places_.find(key_);
  if (known != places_.end()) return known->second;
  const std::uint32_t place = ask(host, npu, job);
  words_ += key_.size();
  if (words_ > kRememberedWords) {
    places_.clear();
    words_ = key_.size();
  }
  places_.emplace(key_, place);
  return place;
}

std::uint32_t AskedQueue::ask(Host& host, std::uint32_t npu, const Job& job) {
  const std::deque<Job>& jobs = npus_[npu].jobs;
  const std::uint32_t place = host.place(number(), jobs, running(npu), job);
  if (place < running(npu) || place > jobs.size()) throw std::invalid_argument("a queue's order gave a place outside of the queue");
  return place;
}

// What the order goes by when a job comes, in key_: of priorities only which are higher.
void AskedQueue::make_key(std::uint32_t npu, const Job& job) {
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
    key_.push_back(one.sort);
    if (!alike) {
      key_.push_back(
          static_cast<std::uint32_t>(std::lower_bound(priorities_.begin(), priorities_.end(), one.priority) - priorities_.begin()));
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

void RuledQueue::enter(Host& host, std::uint32_t npu, std::uint32_t chunk, const Job& job) {
  auto known = standings_.find(job.sort);
  if (known == standings_.end()) {
    Standing standing = host.standing(number(), job.sort);
    if (standing.rule >= rules_.size() || standing.marks.size() != rules_.size()) throw std::invalid_argument("a job that no rule places");
    known = standings_.emplace(job.sort, std::move(standing)).first;
  }
  const Standing& standing = known->second;
  marks_ = standing.marks;
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    if (rules_[rule].by_priority) marks_[rule].key = -job.priority;
  }
  const Rule& rule = rules_[standing.rule];
  const Time limit = marks_[standing.rule].key - (rule.before_equal ? 1 : 0);
  const std::uint32_t place = waiting_.place(trees_[npu], standing.rule, limit, rule.in_turn && running(npu) > 0);
  waiting_.insert(trees_[npu], place, chunk, marks_);
}

std::uint32_t RuledQueue::next(std::uint32_t npu) { return trees_[npu] == Waiting::kNone ? kNone : waiting_.pop(trees_[npu]); }

}  // namespace astra
