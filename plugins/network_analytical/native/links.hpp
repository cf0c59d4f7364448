// The links that have carried something, found by their numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "records.hpp"

namespace astra::analytical {

// A link: what it carried, when it is free (the time and order of that event), and the messages that wait for it, a list from the first to
// the last.
struct Link {
  std::int64_t number = 0, messages = 0, bytes = 0, busy_ps = 0;
  std::int64_t free_at = 0;
  std::uint64_t free_order = 0;
  std::uint32_t first = kNone, last = kNone;
  std::uint32_t largest_queue = 0, waiting = 0;
};
static_assert(sizeof(Link) == 64);

class Links {
 public:
  Link& operator[](std::uint32_t id) { return links_[id]; }
  const Link& operator[](std::uint32_t id) const { return links_[id]; }

  // The places of all links, by number.
  std::vector<std::uint32_t> in_order() const {
    std::vector<std::uint32_t> ids(links_.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::sort(ids.begin(), ids.end(), [this](std::uint32_t a, std::uint32_t b) { return links_[a].number < links_[b].number; });
    return ids;
  }

  // The place of a link, which is added where it is not there yet.
  std::uint32_t find(std::int64_t number) {
    std::size_t slot = home(number);
    for (; ids_[slot] != kNone; slot = (slot + 1) & (ids_.size() - 1)) {
      if (links_[ids_[slot]].number == number) return ids_[slot];
    }
    const std::uint32_t id = links_.add();
    links_[id].number = number;
    if (3 * std::size_t{links_.size()} > 2 * ids_.size()) {
      grow();
    } else {
      ids_[slot] = id;
    }
    return id;
  }

 private:
  static constexpr unsigned kFirstBits = 8;

  std::size_t home(std::int64_t number) const {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15u >> shift_);
  }

  void grow() {
    --shift_;
    ids_.assign(2 * ids_.size(), kNone);
    for (std::uint32_t id = 0; id < links_.size(); ++id) {
      std::size_t slot = home(links_[id].number);
      while (ids_[slot] != kNone) slot = (slot + 1) & (ids_.size() - 1);
      ids_[slot] = id;
    }
  }

  Records<Link> links_;
  std::vector<std::uint32_t> ids_ = std::vector<std::uint32_t>(std::size_t{1} << kFirstBits, kNone);
  unsigned shift_ = 64 - kFirstBits;  // there are 2^(64 - shift_) slots, at most two thirds of them taken
};

}  // namespace astra::analytical
