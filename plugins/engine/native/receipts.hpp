// The receipts of a rank: the state of each of its receives, whichever comes first of the message and of posting the receive.
// Receives are done nearly in the order of their numbers. So they are kept from the first that is not done, in a ring of 2^n
// places.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "ids.hpp"

namespace astra::engine {

// The state of a receive; several flags may be set.
enum ReceiptState : std::uint8_t {
  kArrived = 1,   // the message is there
  kPosted = 2,    // the rank waits for it
  kDone = 4,      // they have met
  kGranted = 8,   // the request has reached the sender (rendezvous)
  kOffered = 16,  // the message waits for the request
};

struct Receipt {
  Time posted_at;
  std::uint8_t state;
};

class Receipts {
 public:
  Receipts() = default;
  Receipts(const Receipts&) = delete;
  Receipts& operator=(const Receipts&) = delete;
  ~Receipts() {
    if (capacity_ > kInside) delete[] outside_;
  }

  Receipt& at(ReceiptId id) {
    if (id - first_ >= capacity_) make_room(id);
    return data()[id & (capacity_ - 1)];
  }

  // A receive has its message: forget it, and those that follow if they are done.
  void done(ReceiptId id) {
    at(id).state |= kDone;
    if (id != first_) return;
    Receipt* const receipts = data();
    const std::uint32_t mask = capacity_ - 1;
    ReceiptId next = id;
    do receipts[next++ & mask] = Receipt{};
    while (receipts[next & mask].state & kDone);
    first_ = next;
  }

  // Call a function for each receive that waits for its message.
  template <typename Function>
  void each_posted(Function function) const {
    for (ReceiptId id = first_; id != first_ + capacity_; ++id) {
      if ((data()[id & (capacity_ - 1)].state & (kPosted | kDone)) == kPosted) function(id);
    }
  }

 private:
  static constexpr std::uint32_t kInside = 2;

  Receipt* data() { return capacity_ > kInside ? outside_ : inside_; }
  const Receipt* data() const { return capacity_ > kInside ? outside_ : inside_; }

  // Apart, so that the way that is taken nearly always is short.
  [[gnu::noinline, gnu::cold]] void make_room(ReceiptId id) {
    if (id < first_) throw std::logic_error("a receive was met twice");
    std::uint32_t capacity = capacity_;
    while (id - first_ >= capacity) capacity *= 2;
    Receipt* larger = new Receipt[capacity]();
    for (ReceiptId each = first_; each != first_ + capacity_; ++each) larger[each & (capacity - 1)] = data()[each & (capacity_ - 1)];
    if (capacity_ > kInside) delete[] outside_;
    outside_ = larger;
    capacity_ = capacity;
  }

  ReceiptId first_ = 0;
  std::uint32_t capacity_ = kInside;
  union {
    Receipt inside_[kInside] = {};
    Receipt* outside_;
  };
};

}  // namespace astra::engine
