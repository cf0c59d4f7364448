// A first-in, first-out queue that grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace astra::packet {

template <class T>
class RingBuffer {
 public:
  RingBuffer() = default;
  RingBuffer(const RingBuffer& other) : size_(other.size_) {
    if (other.capacity() == 0) return;
    slots_ = std::make_unique<T[]>(other.capacity());
    mask_ = other.mask_;
    for (std::uint32_t i = 0; i < size_; ++i) slots_[i] = other[i];
  }
  RingBuffer(RingBuffer&& other) noexcept { swap(other); }
  RingBuffer& operator=(RingBuffer other) noexcept {
    swap(other);
    return *this;
  }
  ~RingBuffer() = default;

  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return size_; }
  T& front() { return slots_[head_]; }
  const T& front() const { return slots_[head_]; }
  T& operator[](std::uint32_t index) { return slots_[(head_ + index) & mask_]; }
  const T& operator[](std::uint32_t index) const { return slots_[(head_ + index) & mask_]; }

  void push(const T& value) { push() = value; }
  // A new last one, to be written.
  T& push() {
    if (size_ == capacity()) grow();
    return slots_[(head_ + size_++) & mask_];
  }

  void pop() {
    --size_;
    // An empty one begins again in front, which is in the cache. A product, as a branch would often be mispredicted.
    head_ = ((head_ + 1) & mask_) * static_cast<std::uint32_t>(size_ != 0);
  }

 private:
  void swap(RingBuffer& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(head_, other.head_);
    std::swap(size_, other.size_);
    std::swap(mask_, other.mask_);
  }

  static constexpr std::uint32_t kNoSlots = ~std::uint32_t{0};  // as a mask: that of a capacity of 0

  std::uint32_t capacity() const { return mask_ + 1; }

  // Out of line: who pushes seldom comes here, and keeps its registers.
  [[gnu::noinline, gnu::cold]] void grow() {
    const std::uint32_t wider = std::max<std::uint32_t>(4, 2 * capacity());
    auto slots = std::make_unique<T[]>(wider);
    for (std::uint32_t i = 0; i < size_; ++i) slots[i] = (*this)[i];
    slots_ = std::move(slots);
    head_ = 0;
    mask_ = wider - 1;
  }

  std::unique_ptr<T[]> slots_;
  std::uint32_t head_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t mask_ = kNoSlots;
};

}  // namespace astra::packet
