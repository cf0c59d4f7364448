#include "agreement.hpp"

namespace astra::engine {

Key Agreement::next(NpuId npu) const {
  const std::uint64_t place = place_[member_of_[npu]] - first_;
  return place < entries_.size() ? entries_[place].key : kNoKey;
}

void Agreement::take(NpuId npu, Key key) {
  const std::uint64_t place = place_[member_of_[npu]]++ - first_;
  if (place == entries_.size()) entries_.push_back({key, npus_});
  --entries_[place].left;
  while (!entries_.empty() && entries_.front().left == 0) {
    entries_.pop_front();
    ++first_;
  }
}

void Agreements::join(std::uint32_t number, const std::vector<std::int64_t>& npus) {
  if (number >= orders_.size()) orders_.resize(number + std::size_t{1});
  for (const std::int64_t npu : npus) {
    at(number_of_, npu) = number;
    at(member_of_, npu) = orders_[number].members++;
  }
}

Agreement* Agreements::find(NpuId npu, std::vector<std::unique_ptr<Agreement>> Orders::* of, std::uint32_t place) {
  const std::uint32_t number = number_of_[npu];
  if (number == kNone) return nullptr;
  Orders& orders = orders_[number];
  if (orders.members < 2) return nullptr;
  std::vector<std::unique_ptr<Agreement>>& known = orders.*of;
  if (place >= known.size()) known.resize(place + std::size_t{1});
  if (!known[place]) known[place] = std::make_unique<Agreement>(orders.members, member_of_);
  return known[place].get();
}

}  // namespace astra::engine
