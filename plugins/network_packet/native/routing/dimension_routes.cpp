#include "routing/dimension_routes.hpp"

#include <astra_sim/fabric/destination_order.hpp>
#include <astra_sim/fabric/paths.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace astra::packet {

void DimensionRoutes::name_ways(std::vector<std::vector<int>> channels) {
  if (channels.size() != layout_->router.size() * index(size_)) throw std::invalid_argument("named routes need an entry of each router");
  named_ = std::move(channels);
}

void DimensionRoutes::make() {
  if (is_collapsed()) {
    table_ = table_of_quotient();
    return;
  }
  is_named() ? measure_named() : measure_distances();
  check();
  table_ = is_named() ? table_by_name() : !destination_order_.empty() ? table_by_turn() : table_by_position();
  // The destination order separates messages that collectives send at a time, so that balancing would only disturb them.
  if (!is_named() && destination_order_.empty()) balance(*layout_, *this, size_, table_);
}

bool DimensionRoutes::has_choices() const {
  return std::any_of(table_.begin(), table_.end(),
                     [](std::uint16_t entry) { return entry != TableEntry::kUnreachable && entry >= TableEntry::kSeveral; });
}

// From all routers that have the wanted position backwards over the links of the dimension.
void DimensionRoutes::measure_distances() {
  int largest = 1;
  for (const ChannelSpec& spec : layout_->channel) largest = std::max(largest, spec.dimension == d_ ? spec.cost : 1);
  std::vector<std::vector<int>> at_position(index(size_));
  for (int r = 0; r < routers(); ++r) {
    if (layout_->position(r, d_) >= 0) at(at_position, layout_->position(r, d_)).push_back(r);
  }
  fabric::ShortestPaths paths(largest);
  distance_.resize(layout_->router.size() * index(size_));
  for (int wanted = 0; wanted < size_; ++wanted) {
    std::vector<int> hit(layout_->router.size(), fabric::kUnreachable);
    paths.search(at(at_position, wanted), hit, [&](int r, const auto& reach) {
      for (int c : at(layout_->router, r).inputs) {
        const ChannelSpec& spec = at(layout_->channel, c);
        if (spec.dimension == d_) reach(spec.source, spec.cost);
      }
      return true;
    });
    for (int r = 0; r < routers(); ++r) at(distance_, r * size_ + wanted) = at(hit, r);
  }
}

void DimensionRoutes::measure_named() {
  std::vector<int> distance(layout_->router.size() * index(size_), -1);
  for (int wanted = 0; wanted < size_; ++wanted) {
    const auto measure = [&](const auto& self, int r) -> int {
      if (layout_->position(r, d_) == wanted) return at(distance, r * size_ + wanted) = 0;
      if (at(distance, r * size_ + wanted) >= 0) return at(distance, r * size_ + wanted);
      int most = -1;
      for (const int c : at(named_, r * size_ + wanted)) most = std::max(most, 1 + self(self, at(layout_->channel, c).sink));
      return at(distance, r * size_ + wanted) = most;
    };
    for (int r = 0; r < routers(); ++r) measure(measure, r);
  }
  distance_ = std::move(distance);
}

void DimensionRoutes::check() const {
  for (int r : layout_->node_router) {
    for (int wanted = 0; wanted < size_; ++wanted) {
      if (at(distance_, r * size_ + wanted) >= 0) continue;
      throw std::invalid_argument("dimension " + std::to_string(d_) + ": there is no route from position " +
                                  std::to_string(layout_->position(r, d_)) + " to position " + std::to_string(wanted));
    }
  }
}

DimensionRoutes::Table DimensionRoutes::table_of_quotient() const {
  Table table(layout_->router.size() * index(size_), TableEntry::kUnreachable);
  for (int r = 0; r < routers(); ++r) {
    const std::vector<int>& outputs = at(layout_->router, r).outputs;
    for (int offset = 0; offset < size_; ++offset) {
      const auto hit = std::find(outputs.begin(), outputs.end(), quotient_channel(r, offset));
      if (hit != outputs.end()) at(table, r * size_ + offset) = narrow<std::uint16_t>(hit - outputs.begin());
    }
  }
  return table;
}

template <class Choose>
DimensionRoutes::Table DimensionRoutes::table_by(Choose choose) const {
  Table table(layout_->router.size() * index(size_), TableEntry::kUnreachable);
  std::vector<std::size_t> places;
  for (int r = 0; r < routers(); ++r) {
    for (int wanted = 0; wanted < size_; ++wanted) {
      places.clear();
      each_shortest(r, wanted, [&](std::size_t place) { places.push_back(place); });
      if (places.empty()) continue;
      const std::size_t choice = choose(r, wanted, places);
      at(table, r * size_ + wanted) = TableEntry::of(places[choice], places.size() > 1);
    }
  }
  return table;
}

DimensionRoutes::Table DimensionRoutes::table_by_position() const {
  const std::vector<int> height = heights();
  const std::vector<std::size_t> stride = strides(height);
  return table_by(
      [&](int r, int wanted, const std::vector<std::size_t>& places) { return index(wanted) / at(stride, at(height, r)) % places.size(); });
}

DimensionRoutes::Table DimensionRoutes::table_by_turn() const {
  std::vector<fabric::Link> links;
  std::vector<fabric::DestinationOrder::Numbered> positions;
  for (const ChannelSpec& spec : layout_->channel) {
    if (spec.dimension == d_) links.push_back({spec.source, spec.sink});
  }
  for (int r = 0; r < routers(); ++r) {
    const int here = layout_->position(r, d_);
    if (here >= 0) positions.emplace_back(r, at(destination_order_, here));
  }
  const fabric::DestinationOrder turn(fabric::Graph(routers(), 0, links), positions);
  return table_by([&](int r, int wanted, std::vector<std::size_t>& places) {
    auto sink = [&](std::size_t place) { return at(layout_->channel, at(at(layout_->router, r).outputs, place)).sink; };
    std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) { return sink(a) < sink(b); });
    return turn.choose(r, index(at(destination_order_, wanted)), sink(places.front()), sink(places.back()), places.size());
  });
}

DimensionRoutes::Table DimensionRoutes::table_by_name() const {
  return table_by([](int, int, const std::vector<std::size_t>&) { return std::size_t{0}; });
}

// Of each router, the links of the dimension from the nearest position: 0 for positions, 1 for switches next to them, and so on.
std::vector<int> DimensionRoutes::heights() const {
  std::vector<int> height(layout_->router.size(), -1);
  std::vector<int> reached;
  for (int r = 0; r < routers(); ++r) {
    if (layout_->position(r, d_) < 0) continue;
    at(height, r) = 0;
    reached.push_back(r);
  }
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (int c : at(layout_->router, reached[i]).outputs) {
      const ChannelSpec& spec = at(layout_->channel, c);
      if (spec.dimension != d_ || at(height, spec.sink) >= 0) continue;
      at(height, spec.sink) = at(height, reached[i]) + 1;
      reached.push_back(spec.sink);
    }
  }
  for (int& of_router : height) of_router = std::max(of_router, 0);
  return height;
}

// By height, the divisor of a destination before it chooses among several paths. Routers of each height use a digit of the
// destination that those below them have not looked at, so that destinations spread over all ways up (on a k-ary n-tree: d-mod-k).
std::vector<std::size_t> DimensionRoutes::strides(const std::vector<int>& height) const {
  std::vector<std::size_t> directions(index(*std::max_element(height.begin(), height.end())) + 1, 1);
  for (int r = 0; r < routers(); ++r) {
    std::size_t& most = at(directions, at(height, r));
    for (int wanted = 0; wanted < size_; ++wanted) {
      std::size_t count = 0;
      each_shortest(r, wanted, [&](std::size_t) { ++count; });
      most = std::max(most, count);
    }
  }
  std::vector<std::size_t> stride(directions.size(), 1);
  for (std::size_t h = 1; h < directions.size(); ++h) {
    stride[h] = stride[h - 1] * directions[h - 1];
    if (stride[h] >= index(size_)) stride[h] = 1;  // no digit is left
  }
  return stride;
}

}  // namespace astra::packet
