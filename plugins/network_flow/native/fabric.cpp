#include "fabric.hpp"

#include <algorithm>
#include <climits>
#include <stdexcept>
#include <utility>

namespace astra::flow {

namespace {

void check(const Group& group) {
  const bool sized = group.size >= 1 && group.nodes >= group.size && count_of(group.switch_latency_ns) == group.nodes - group.size;
  const bool linked = std::all_of(group.links.begin(), group.links.end(), [&](const GroupLink& link) {
    return std::min(link.source, link.target) >= 0 && std::max(link.source, link.target) < group.nodes && link.bandwidth > 0 &&
           link.latency_ns >= 0 && link.cost >= 1;
  });
  const bool turned =
      group.destination_order.empty() || (count_of(group.destination_order) == group.size &&
                                          *std::min_element(group.destination_order.begin(), group.destination_order.end()) >= 0);
  if (!sized || !linked || !turned) throw std::invalid_argument("links or switches that do not fit a dimension");
}

}  // namespace

Fabric::Fabric(std::vector<Group> groups) : groups_(std::move(groups)) {
  std::int64_t npus = 1;
  for (const Group& group : groups_) {
    check(group);
    stride_.push_back(static_cast<int>(npus));
    npus *= group.size;
    if (npus > INT_MAX) throw std::invalid_argument("too many NPUs");
  }
  npus_ = static_cast<int>(npus);
  std::int64_t links = 0;
  for (const Group& group : groups_) {
    first_link_.push_back(static_cast<int>(links));
    links += npus / group.size * count_of(group.links);
    if (links > INT_MAX) throw std::invalid_argument("too many links");
  }
  first_link_.push_back(static_cast<int>(links));
}

int Fabric::first_link(int npu, int dimension) const {
  const int stride = at(stride_, dimension);
  const int number = npu % stride + npu / (stride * group(dimension).size) * stride;
  return at(first_link_, dimension) + number * count_of(group(dimension).links);
}

double Fabric::bandwidth(int link) const {
  const auto behind = std::upper_bound(first_link_.begin(), first_link_.end(), link);
  const int dimension = static_cast<int>(behind - first_link_.begin()) - 1;
  const Group& own = group(dimension);
  return at(own.links, (link - at(first_link_, dimension)) % count_of(own.links)).bandwidth;
}

}  // namespace astra::flow
