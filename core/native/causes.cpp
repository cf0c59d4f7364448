#include "causes.hpp"

#include <algorithm>

namespace astra::engine {

void Causes::schedule(const EventKey& key, Time now, Time time) {
  std::uint32_t id = delivered_;
  delivered_ = kNone;
  if (id == kNone) id = make(now, time);
  Link& link = entries_[id].link;
  link.end = time;
  link.npu = key.npu;
  scheduled_.emplace(key, id);
  last_ = id;
}

void Causes::carry(NpuId to, std::int64_t bytes) {
  Link& link = entries_[last_].link;
  link.to = to;
  link.bytes = bytes;
}

void Causes::send(std::uint64_t message, Time now, NpuId to, std::int64_t bytes) {
  const std::uint32_t id = make(now, now);
  Link& link = entries_[id].link;
  link.to = to;
  link.bytes = bytes;
  under_way_.emplace(message, id);
}

void Causes::deliver(std::uint64_t message) {
  const auto found = under_way_.find(message);
  delivered_ = found->second;
  under_way_.erase(found);
}

void Causes::happens(const EventKey& key, const Label& label) {
  const auto found = scheduled_.find(key);
  const std::uint32_t id = found->second;
  scheduled_.erase(found);
  entries_[id].link.label = label;
  const std::uint32_t before = now_;
  now_ = id;
  if (before != kNone) drop(before);
}

std::vector<Link> Causes::path() const {
  std::vector<Link> links;
  for (std::uint32_t id = now_; id != kNone; id = entries_[id].parent) links.push_back(entries_[id].link);
  std::reverse(links.begin(), links.end());
  return links;
}

std::uint32_t Causes::make(Time now, Time time) {
  Entry entry;
  entry.link.begin = now;
  entry.link.end = time;
  entry.parent = now_;
  entry.holders = 1;
  if (now_ != kNone) ++entries_[now_].holders;
  return entries_.add(entry);
}

void Causes::drop(std::uint32_t id) {
  while (id != kNone && --entries_[id].holders == 0) {
    entries_.release(id);
    id = entries_[id].parent;
  }
}

}  // namespace astra::engine
