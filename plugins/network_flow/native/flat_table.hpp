// A table from keys to small values, in one array, for things that are found for each message.
#pragma once

#include <algorithm>
#include <astra_sim/index.hpp>
#include <cstddef>
#include <utility>
#include <vector>

namespace astra::flow {

// Open addressing with linear probing (Knuth, The Art of Computer Programming, volume 3, 6.4, algorithm L). A `Key` has functions `hash`,
// whose upper bits count most, and `empty`: the one that is made by default is, and no other. A `Value` has a function `is_needed`: when
// the table is full, those that are not go.
template <class Key, class Value>
class FlatTable {
 public:
  // The value of a key, until another is added. A new one is made by default.
  Value& find_or_add(const Key& key) {
    if ((count_ + 1) * 2 > entries_.size()) make_room();
    Entry& entry = entries_[place_of(key)];
    if (entry.key.empty()) {
      entry = {key, Value{}};
      ++count_;
    }
    return entry.value;
  }

  // The value of a key, or nullptr.
  Value* find(const Key& key) {
    if (count_ == 0) return nullptr;
    Entry& entry = entries_[place_of(key)];
    return entry.key.empty() ? nullptr : &entry.value;
  }

  void clear() {
    entries_.clear();
    count_ = 0;
  }

 private:
  struct Entry {
    Key key;
    Value value;
  };

  static constexpr std::size_t kLeast = 64;
  static constexpr int kDropped = 20;  // bits of a hash

  std::size_t mask() const { return entries_.size() - 1; }
  std::size_t next(std::size_t place) const { return (place + 1) & mask(); }
  std::size_t home_of(const Key& key) const { return key.hash() >> kDropped & mask(); }

  std::size_t place_of(const Key& key) const {
    std::size_t place = home_of(key);
    while (!entries_[place].key.empty() && entries_[place].key != key) place = next(place);
    return place;
  }

  void make_room() {
    const auto is_needed = [](const Entry& entry) { return !entry.key.empty() && entry.value.is_needed(); };
    count_ = index(std::count_if(entries_.begin(), entries_.end(), is_needed));
    const std::size_t size = count_ * 4 >= entries_.size() ? std::max(kLeast, entries_.size() * 2) : entries_.size();
    const std::vector<Entry> before = std::exchange(entries_, std::vector<Entry>(size));
    for (const Entry& entry : before) {
      if (is_needed(entry)) entries_[place_of(entry.key)] = entry;
    }
  }

  std::vector<Entry> entries_;  // a power of two
  std::size_t count_ = 0;
};

}  // namespace astra::flow
