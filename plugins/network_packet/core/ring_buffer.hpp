// A first-in, first-out queue that grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace astra::packet {

template <class T>
class RingBuffer {
public:
    bool empty() const { return size_ == 0; }
    std::uint32_t size() const { return size_; }
    T& front() { return slots_[head_]; }
    const T& front() const { return slots_[head_]; }
    T& operator[](std::uint32_t index) { return slots_[(head_ + index) & mask_]; }
    const T& operator[](std::uint32_t index) const { return slots_[(head_ + index) & mask_]; }

    void push(const T& value) {
        if (size_ == slots_.size()) grow();
        slots_[(head_ + size_) & mask_] = value;
        ++size_;
    }

    void pop() {
        head_ = (head_ + 1) & mask_;
        --size_;
    }

private:
    void grow() {
        std::vector<T> wider(slots_.empty() ? 4 : 2 * slots_.size());
        for (std::uint32_t i = 0; i < size_; ++i) wider[i] = (*this)[i];
        slots_.swap(wider);
        head_ = 0;
        mask_ = static_cast<std::uint32_t>(slots_.size() - 1);
    }

    std::vector<T> slots_;
    std::uint32_t head_ = 0;
    std::uint32_t size_ = 0;
    std::uint32_t mask_ = 0;
};

}  // namespace astra::packet
