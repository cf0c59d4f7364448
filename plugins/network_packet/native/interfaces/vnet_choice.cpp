#include "interfaces/vnet_choice.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/index.hpp"

namespace astra::packet {

VnetChoice VnetChoice::by_queue(std::vector<int> vnet_of_queue) {
  for (int vnet : vnet_of_queue) {
    if (vnet < 0) throw std::invalid_argument("expected virtual networks from 0 on, got " + std::to_string(vnet));
  }
  return VnetChoice(ByQueue{std::move(vnet_of_queue)});
}

int VnetChoice::Single::vnet_of(int, int, int) const { return 0; }

int VnetChoice::ByLastDimension::vnet_of(int source, int destination, int) const {
  int last = 0;
  for (int d = 0; d < end(); ++d) {
    const auto [stride, size] = at(dimensions, d);
    if (source / stride % size != destination / stride % size) last = d;
  }
  return last;
}

int VnetChoice::ByQueue::vnet_of(int, int, int queue) const {
  if (queue < 0) return kNearest;
  return queue < count_of(vnet_of_queue) ? at(vnet_of_queue, queue) : kNone;
}

int VnetChoice::ByQueue::end() const {
  const auto highest = std::max_element(vnet_of_queue.begin(), vnet_of_queue.end());
  return highest == vnet_of_queue.end() ? 0 : *highest + 1;
}

int VnetChoice::vnet_of(int source, int destination, int queue) const {
  return std::visit([&](const auto& rule) { return rule.vnet_of(source, destination, queue); }, rule_);
}

int VnetChoice::end() const {
  return std::visit([](const auto& rule) { return rule.end(); }, rule_);
}

}  // namespace astra::packet
