#include "causes.hpp"

#include <algorithm>

namespace astra::engine {

void Causes::schedule(const EventKey& key, Time time) {
  if (delivered_ == kNone) {
    last_ = make();
  } else {
    last_ = delivered_;
    delivered_ = kNone;
  }
  entries_[last_].end = time;
  entries_[last_].npu = key.npu;
  scheduled(key).add(pair_key(key.npu, key.order), last_);
}

void Causes::carry(NpuId to, std::int64_t bytes) {
  entries_[last_].to = to;
  entries_[last_].bytes = bytes;
}

void Causes::send(std::uint64_t message, NpuId to, std::int64_t bytes) {
  const std::uint32_t id = make();
  entries_[id].to = to;
  entries_[id].bytes = bytes;
  under_way_.add(message, id);
}

void Causes::deliver(std::uint64_t message) { delivered_ = under_way_.take(message); }

void Causes::happens(const EventKey& key, const Label& label) {
  now_ = scheduled(key).take(pair_key(key.npu, key.order));
  entries_[now_].label = label;
  if (keeps_messages_ && (label.kind == LinkKind::message || label.kind == LinkKind::point_to_point)) messages_.push_back(link(now_));
}

Link Causes::link(std::uint32_t id) const {
  const Entry& entry = entries_[id];
  const Time begin = entry.parent == kNone ? 0 : entries_[entry.parent].end;
  return {begin, entry.end, entry.npu, entry.to, entry.bytes, entry.label};
}

std::vector<Link> Causes::path() const {
  std::vector<Link> links;
  for (std::uint32_t id = now_; id != kNone; id = entries_[id].parent) links.push_back(link(id));
  std::reverse(links.begin(), links.end());
  return links;
}

std::uint32_t Causes::make() {
  if (entries_.size() >= limit_) forget();
  entries_.emplace_back().parent = now_;
  return next_id(entries_) - 1;
}

void Causes::forget() {
  std::vector<std::uint32_t> place(entries_.size(), kNone);  // 0 of those that stay, then where they are to be
  const auto keep = [&](std::uint32_t id) {
    if (id != kNone) place[id] = 0;
  };
  for (PendingLinks* pending : {&events_, &ends_, &under_way_}) pending->each(keep);
  for (const std::uint32_t id : {now_, last_}) keep(id);
  for (std::size_t id = entries_.size(); id-- > 0;) {
    if (place[id] != kNone) keep(entries_[id].parent);
  }
  std::uint32_t retained = 0;
  for (std::size_t id = 0; id < entries_.size(); ++id) {
    if (place[id] == kNone) continue;
    place[id] = retained;
    Entry& entry = entries_[retained++] = entries_[id];
    if (entry.parent != kNone) entry.parent = place[entry.parent];
  }
  entries_.resize(retained);
  const auto move = [&](std::uint32_t& id) {
    if (id != kNone) id = place[id];
  };
  for (PendingLinks* pending : {&events_, &ends_, &under_way_}) pending->each(move);
  move(now_);
  move(last_);
  limit_ = std::max(kFirstLimit, kGrowth * retained);
  entries_.reserve(limit_);
}

}  // namespace astra::engine
