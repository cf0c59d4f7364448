// The links that have carried something, found by their numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "records.hpp"

namespace astra::analytical {

// A link: its load, when it is free (the time and order of that event), and its queue, once a message had to wait for it.
struct Link {
  std::int64_t messages = 0, bytes = 0, busy_ps = 0;
  std::int64_t free_at = 0;
  std::uint64_t free_order = 0;
  std::uint32_t queue = kNone;
};
static_assert(sizeof(Link) == 48);

// The messages that wait for a link, a list from the first to the last, how many they are, and the most there were.
struct LinkQueue {
  std::uint32_t first = kNone, last = kNone;
  std::uint32_t waiting = 0, largest = 0;
};

// An NPU that sends to many uses links one after another. So they are in groups of consecutive numbers, and a group is searched for, if it
// is not the one that was found last.
class Links {
 public:
  // Whether messages wait for a link.
  bool is_waited_for(const Link& link) const { return link.queue != kNone && queues_[link.queue].first != kNone; }
  // The queue of a link for which a message has to wait, or had to.
  LinkQueue& queue_of(Link& link) {
    if (link.queue == kNone) link.queue = queues_.add();
    return queues_[link.queue];
  }
  std::uint32_t largest_queue(const Link& link) const { return link.queue == kNone ? 0 : queues_[link.queue].largest; }

  // Call a function with the number of each link that has carried something, and the link, by number.
  template <class Function>
  void in_order(Function function) const {
    std::vector<std::uint32_t> groups(groups_.size());
    std::iota(groups.begin(), groups.end(), 0);
    std::sort(groups.begin(), groups.end(), [this](std::uint32_t a, std::uint32_t b) { return groups_[a] < groups_[b]; });
    for (const std::uint32_t group : groups) {
      for (std::uint32_t place = 0; place < kGroup; ++place) {
        const Link& link = links_[group * kGroup + place];
        if (link.messages) function(static_cast<std::int64_t>(groups_[group] * kGroup + place), link);
      }
    }
  }

  // The place of a link, which is added where it is not there yet.
  std::uint32_t find(std::int64_t number) {
    const std::uint64_t group = static_cast<std::uint64_t>(number) / kGroup;
    if (group != found_number_) find_group(group);
    return last_group_ * kGroup + static_cast<std::uint32_t>(number) % kGroup;
  }
  Link& operator[](std::uint32_t place) { return links_[place]; }

 private:
  static constexpr std::uint32_t kGroup = 8;
  static constexpr unsigned kFirstBits = 8;

  std::size_t home(std::uint64_t group) const { return static_cast<std::size_t>(group * 0x9e3779b97f4a7c15u >> shift_); }

  void find_group(std::uint64_t number) {
    found_number_ = number;
    std::size_t slot = home(number);
    for (; ids_[slot] != kNone; slot = (slot + 1) & (ids_.size() - 1)) {
      last_group_ = ids_[slot];
      if (groups_[last_group_] == number) return;
    }
    last_group_ = static_cast<std::uint32_t>(groups_.size());
    groups_.push_back(number);
    for (std::uint32_t place = 0; place < kGroup; ++place) links_.add();
    if (3 * groups_.size() > 2 * ids_.size()) {
      grow();
    } else {
      ids_[slot] = last_group_;
    }
  }

  void grow() {
    --shift_;
    ids_.assign(2 * ids_.size(), kNone);
    for (std::uint32_t id = 0; id < groups_.size(); ++id) {
      std::size_t slot = home(groups_[id]);
      while (ids_[slot] != kNone) slot = (slot + 1) & (ids_.size() - 1);
      ids_[slot] = id;
    }
  }

  Records<Link> links_;  // group after group
  Records<LinkQueue> queues_;
  std::vector<std::uint64_t> groups_;              // the number of each: that of its first link, divided by kGroup
  std::uint64_t found_number_ = ~std::uint64_t{};  // of the group that was found last,
  std::uint32_t last_group_ = 0;                   // and its place
  std::vector<std::uint32_t> ids_ = std::vector<std::uint32_t>(std::size_t{1} << kFirstBits, kNone);
  unsigned shift_ = 64 - kFirstBits;  // there are 2^(64 - shift_) slots, at most two thirds of them taken
};

}  // namespace astra::analytical
