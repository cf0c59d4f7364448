// Links of causes that wait for something to happen, by a key.
//
// Few wait at a time, and keys come and go with every event: so they are in one array, each at the slot of its key, or at the next
// that is free.
#pragma once

#include <cstdint>
#include <vector>

#include "ids.hpp"

namespace astra::engine {

class PendingLinks {
 public:
  void add(std::uint64_t key, std::uint32_t link) {
    if (2 * ++count_ > slots_.size()) grow();
    put({key, link});
  }

  // Take out the link of a key, which is there.
  std::uint32_t take(std::uint64_t key) {
    const std::size_t last = slots_.size() - 1;
    std::size_t gap = home(key);
    while (slots_[gap].link == kNone || slots_[gap].key != key) gap = (gap + 1) & last;
    const std::uint32_t link = slots_[gap].link;
    // The entry displaced from the gap moves up.
    for (std::size_t next = (gap + 1) & last; slots_[next].link != kNone; next = (next + 1) & last) {
      if (((next - home(slots_[next].key)) & last) < ((next - gap) & last)) continue;
      slots_[gap] = slots_[next];
      gap = next;
    }
    slots_[gap].link = kNone;
    --count_;
    return link;
  }

  // Call a function for each link, which may change it.
  template <typename Function>
  void each(Function function) {
    for (Slot& slot : slots_) {
      if (slot.link != kNone) function(slot.link);
    }
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t link = kNone;  // kNone: the slot is free
  };

  static constexpr unsigned kFirstBits = 8;

  std::size_t home(std::uint64_t key) const { return narrow<std::size_t>(key * 0x9e3779b97f4a7c15u >> shift_); }

  void put(const Slot& slot) {
    std::size_t place = home(slot.key);
    while (slots_[place].link != kNone) place = (place + 1) & (slots_.size() - 1);
    slots_[place] = slot;
  }

  void grow() {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    --shift_;
    for (const Slot& slot : before) {
      if (slot.link != kNone) put(slot);
    }
  }

  std::vector<Slot> slots_{std::size_t{1} << kFirstBits};
  unsigned shift_ = 64 - kFirstBits;  // there are 2^(64 - shift_) slots, at most half of them taken
  std::size_t count_ = 0;
};

}  // namespace astra::engine
