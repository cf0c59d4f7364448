// A row of records, first in, first out, in memory that grows when it is full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace astra::roce {

template <class Record>
class RingBuffer {
 public:
  bool empty() const { return count_ == 0; }
  const Record& front() const { return records_[first_]; }

  void push(const Record& record) {
    if (count_ == room_) grow();
    records_[(first_ + count_) & (room_ - 1)] = record;
    ++count_;
  }
  void pop() {
    first_ = (first_ + 1) & (room_ - 1);
    --count_;
  }

 private:
  static constexpr std::uint32_t kLeast = 4;

  void grow() {
    const std::uint32_t room = room_ == 0 ? kLeast : 2 * room_;
    auto records = std::make_unique<Record[]>(room);
    for (std::uint32_t place = 0; place < count_; ++place) records[place] = records_[(first_ + place) & (room_ - 1)];
    records_ = std::move(records);
    first_ = 0;
    room_ = room;
  }

  std::unique_ptr<Record[]> records_;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t room_ = 0;  // 0, or a power of two
};

}  // namespace astra::roce
