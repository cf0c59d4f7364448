#include "quotient/symmetric_sends.hpp"

#include <algorithm>
#include <tuple>

#include "quotient/alike_routes.hpp"

namespace astra::packet {

bool are_kept(const std::vector<Sent>& messages, const Automorphisms& by) {
  const std::size_t places = index(by.count());
  std::vector<std::tuple<int, int, std::int64_t, int, int>> all;  // of one node, and by place
  for (const Sent& m : messages) {
    all.emplace_back(by.node(m.source), by.address(m.source, m.destination), m.bytes, m.queue, by.place(m.source));
  }
  std::sort(all.begin(), all.end());
  auto same = [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a), std::get<3>(a)) ==
           std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b), std::get<3>(b));
  };
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    while (end < all.size() && same(all[first], all[end])) ++end;
    if ((end - first) % places != 0) return false;
    const std::size_t of_each = (end - first) / places;
    for (std::size_t i = first; i < end; ++i) {
      if (index(std::get<4>(all[i])) != (i - first) / of_each) return false;
    }
  }
  return true;
}

bool SymmetricSends::take(const std::vector<Sent>& messages) {
  messages_.clear();
  numbers_.clear();
  const int places = automorphisms_.count();
  if (messages.size() % index(places) != 0) return false;
  sort(messages);
  numbers_.resize(messages.size());
  for (int node = 0; node < automorphisms_.nodes(); ++node) {
    const std::size_t before = messages_.size();
    list(messages, automorphisms_.npu(node, 0), first_);
    for (const Ordered& each : first_) {
      if (!routes_are_alike(shape_, node, each.message.address, each.message.vnet)) return false;
      messages_.push_back(each.message);
    }
    if (messages_.size() * index(places) > messages.size()) return false;  // others send fewer
    for (int place = 0; place < places; ++place) {
      list(messages, automorphisms_.npu(node, place), other_);
      if (other_.size() != first_.size()) return false;
      for (std::size_t i = 0; i < other_.size(); ++i) {
        if (!(other_[i].message == first_[i].message)) return false;
        numbers_[(before + i) * index(places) + index(place)] = other_[i].number;
      }
    }
  }
  return true;
}

void SymmetricSends::sort(const std::vector<Sent>& messages) {
  std::fill(starts_.begin(), starts_.end(), 0);
  for (const Sent& each : messages) ++starts_[index(each.source) + 1];
  for (std::size_t npu = 1; npu < starts_.size(); ++npu) starts_[npu] += starts_[npu - 1];
  order_.resize(messages.size());
  for (std::uint32_t i = 0; i < messages.size(); ++i) order_[starts_[index(messages[i].source)]++] = i;
  for (std::size_t npu = starts_.size() - 1; npu > 0; --npu) starts_[npu] = starts_[npu - 1];
  starts_[0] = 0;
}

// Injection ports share nothing, so the order of messages in different ones does not matter: they come by injection port.
void SymmetricSends::list(const std::vector<Sent>& messages, int npu, std::vector<Ordered>& result) const {
  result.clear();
  const int node = automorphisms_.node(npu);
  for (std::uint32_t i = starts_[index(npu)]; i < starts_[index(npu) + 1]; ++i) {
    const Sent& each = messages[order_[i]];
    const int address = automorphisms_.address(npu, each.destination);
    const int injection_port = shape_.injection_port_towards(node, address, each.vnet);
    result.push_back({{each.bytes, node, address, each.queue, each.vnet, injection_port}, each.number});
  }
  auto by_injection_port = [](const Ordered& a, const Ordered& b) { return a.message.injection_port < b.message.injection_port; };
  if (!std::is_sorted(result.begin(), result.end(), by_injection_port)) std::stable_sort(result.begin(), result.end(), by_injection_port);
}

}  // namespace astra::packet
