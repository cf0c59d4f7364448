// Routing tables that load the links of a dimension evenly when every NPU sends as much to every other one.

#include <algorithm>

#include "routing/dimension_routes.hpp"

namespace astra::packet {

namespace {

constexpr int kPasses = 4;
constexpr std::size_t kMostEntries = 1 << 22;  // larger tables would take long, and have room for all digits

}  // namespace

// The traffic of a table, and changes of it one destination at a time.
class Balance {
 public:
  // Of a dimension with `size` positions: the table, which changes, and the cost of the links still to cross. By router, the NPUs that send
  // from it; a flit takes its time on the wires in cycles of `clock_ps`.
  Balance(const std::vector<RouterSpec>& routers, const std::vector<ChannelSpec>& channels, const std::vector<int>& sources,
          std::int64_t clock_ps, int size, std::vector<std::uint16_t>& table, const std::vector<int>& distance)
      : routers_(routers),
        channels_(channels),
        sources_(sources),
        size_(size),
        table_(table),
        distance_(distance),
        load_(channels.size()),
        flow_(routers.size()),
        cost_(routers.size()) {
    for (const ChannelSpec& spec : channels) weight_.push_back(spec.flit_time.in_cycles(clock_ps));
  }

  // Adds (or subtracts, with `sign` -1) the load of all NPUs' messages to a destination.
  void add(int wanted, double sign) {
    sort(wanted);
    std::fill(flow_.begin(), flow_.end(), 0.0);
    for (auto r = nearest_.rbegin(); r != nearest_.rend(); ++r) {
      const double flow = at(flow_, *r) + at(sources_, *r);
      const int c = at(routers_, *r).outputs[place(*r, wanted)];
      at(load_, c) += sign * flow;
      at(flow_, at(channels_, c).sink) += flow;
    }
  }

  // The sum of the squares of the links' loads.
  double squares() const {
    double sum = 0;
    for (std::size_t c = 0; c < load_.size(); ++c) sum += load_[c] * weight_[c] * load_[c] * weight_[c];
    return sum;
  }

  // Moves destinations to other paths as long as that makes the loads of links more equal. Returns whether it did.
  template <class EachWay>
  bool improve(EachWay each_way) {
    bool any = false;
    bool changed = true;
    for (int pass = 0; pass < kPasses && changed; ++pass) {
      changed = false;
      for (int wanted = 0; wanted < size_; ++wanted) changed = move(wanted, each_way) || changed;
      any = any || changed;
    }
    return any;
  }

  // Every router takes the way on which the links carry least so far, and its own among equal ones. For the destination last sorted or
  // added. Calls `each_way(router, wanted, visit(place))`.
  template <class EachWay>
  bool choose(int wanted, EachWay each_way) {
    bool changed = false;
    std::fill(cost_.begin(), cost_.end(), 0.0);
    for (int r : nearest_) {
      auto cost_through = [&](std::size_t output) {
        const std::size_t c = index(at(routers_, r).outputs[output]);
        return load_[c] * weight_[c] * weight_[c] + at(cost_, channels_[c].sink);
      };
      std::size_t best = place(r, wanted);
      double least = cost_through(best);
      each_way(r, wanted, [&](std::size_t output) {
        const double cost = cost_through(output);
        if (cost >= least) return;
        least = cost;
        best = output;
      });
      at(cost_, r) = least;
      changed = changed || best != place(r, wanted);
      std::uint16_t& entry = at(table_, r * size_ + wanted);
      entry = narrow<std::uint16_t>((entry & ~TableEntry::kPlace) | best);
    }
    return changed;
  }

  // Routers from which there is a way to a position, by distance.
  void sort(int wanted) {
    nearest_.clear();
    for (int r = 0; r < count_of(routers_); ++r) {
      if (far(r, wanted) > 0) nearest_.push_back(r);
    }
    std::stable_sort(nearest_.begin(), nearest_.end(), [&](int a, int b) { return far(a, wanted) < far(b, wanted); });
  }

 private:
  // Takes one destination to other ways, if that is better.
  template <class EachWay>
  bool move(int wanted, EachWay each_way) {
    add(wanted, -1);
    const std::vector<std::uint16_t> before = column(wanted);
    const bool other = choose(wanted, each_way);
    add(wanted, 1);
    if (!other) return false;
    const double now = squares();
    const std::vector<std::uint16_t> after = column(wanted);
    add(wanted, -1);
    restore(wanted, before);
    add(wanted, 1);
    if (now >= squares()) return false;
    add(wanted, -1);
    restore(wanted, after);
    add(wanted, 1);
    return true;
  }

  std::vector<std::uint16_t> column(int wanted) const {
    std::vector<std::uint16_t> result;
    for (int r : nearest_) result.push_back(at(table_, r * size_ + wanted));
    return result;
  }
  void restore(int wanted, const std::vector<std::uint16_t>& column) {
    for (std::size_t i = 0; i < nearest_.size(); ++i) at(table_, nearest_[i] * size_ + wanted) = column[i];
  }

  int far(int r, int wanted) const { return at(distance_, r * size_ + wanted); }
  std::size_t place(int r, int wanted) const { return at(table_, r * size_ + wanted) & TableEntry::kPlace; }

  const std::vector<RouterSpec>& routers_;
  const std::vector<ChannelSpec>& channels_;
  const std::vector<int>& sources_;  // by router: NPUs
  int size_;
  std::vector<std::uint16_t>& table_;
  const std::vector<int>& distance_;
  std::vector<double> load_;  // by channel: pairs of NPUs
  std::vector<double> flow_;  // by router: pairs of the destination at hand
  std::vector<double> cost_;
  std::vector<double> weight_;  // by channel: cycles of a flit
  std::vector<int> nearest_;    // for the destination at hand
};

// If the paths by digits of positions are not even, those that destinations choose one after the other may be better.
void balance(const Layout& layout, const DimensionRoutes& routes, int size, std::vector<std::uint16_t>& table) {
  const bool choices = std::any_of(table.begin(), table.end(), [](std::uint16_t entry) {
    return entry != TableEntry::kUnreachable && (entry & TableEntry::kSeveral) != 0;
  });
  if (!choices || table.size() > kMostEntries) return;
  auto each_way = [&](int r, int wanted, auto visit) { routes.each_shortest(r, wanted, visit); };
  std::vector<int> sources(layout.router.size());
  for (int r : layout.node_router) ++at(sources, r);
  std::vector<std::uint16_t> other = table;
  Balance by_digits(layout.router, layout.channel, sources, layout.rules.clock_ps, size, table, routes.distances());
  for (int wanted = 0; wanted < size; ++wanted) by_digits.add(wanted, 1);
  if (!by_digits.improve(each_way)) return;

  Balance in_turn(layout.router, layout.channel, sources, layout.rules.clock_ps, size, other, routes.distances());
  for (int wanted = 0; wanted < size; ++wanted) {
    in_turn.sort(wanted);
    in_turn.choose(wanted, each_way);
    in_turn.add(wanted, 1);
  }
  in_turn.improve(each_way);
  if (in_turn.squares() < by_digits.squares()) table = std::move(other);
}

}  // namespace astra::packet
