// Weighted max-min fair shares of links: `astra_sim_network_flow.sharing` is the same in plain Python, for all flows at once.
//
// A flow takes so much of a link as its rate times its share there. Filling raises the level of all flows together. The rate of a flow is
// the level times its weight, until a link that it uses is full, or its bound is reached; there it stays (progressive filling: Bertsekas
// and Gallager, Data Networks, 1992, 6.5.2). Rates are whole numbers, and those that a full link leaves to its flows are rounded down, so
// the answer does not depend on the order in which flows and links are looked at.
//
// Only levels that can change are computed again. A flow that goes leaves all levels below its own as they are, and so does one that comes;
// of the others only those count that are joined to it by links which they share.
#pragma once

#include <astra_sim/index.hpp>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace astra::flow {

// Exact sums and products of shares of links.
__extension__ using Wide = __int128;

// A link that a flow uses, and the place of the flow in the list of the link.
struct Share {
  int link = 0;
  int place = 0;
};

// The weight of a flow on a link, and how much of the link it has.
struct Load {
  std::int64_t weight = 0;
  std::int64_t used = 0;
};

class Sharing {
 public:
  static constexpr std::int64_t kNoBound = INT64_MAX;

  // Capacities of links, above 0 and up to 2^50. The rate of a flow, which may use a small part of a link only, must be below 2^63.
  explicit Sharing(const std::vector<std::int64_t>& capacity);

  // A flow comes: its weight, 1 to 2^50, those on its links, and the highest rate it may have. Returns its number.
  int add(std::int64_t weight, std::int64_t bound, std::span<const std::pair<int, std::int64_t>> links);

  // A flow goes. Its number is used again.
  void remove(int flow);

  // Computes the rates that may have changed since the last call. Returns their flows, in an order that the calls alone decide.
  const std::vector<int>& settle();

  // How many links there are, and whether a flow has come and not gone.
  int links() const { return count_of(links_); }
  bool has(int flow) const { return flow >= 0 && flow < count_of(flows_) && flows_[index(flow)].count > 0; }

  std::int64_t rate(int flow) const { return flows_[index(flow)].rate; }
  std::int64_t weight(int flow) const { return flows_[index(flow)].weight; }
  // How many flows use a link.
  int flows_on(int link) const { return links_[index(link)].flows; }

 private:
  struct Flow {
    std::int64_t weight = 1, bound = kNoBound, rate = 0;
    int first = 0, count = 0;  // its shares
    bool is_even = true;       // its weight is that on all its links, and so its rate what it has of each
  };

  struct Link {
    std::int64_t capacity = 0, free = 0;
    Wide weight = 0, open = 0;  // of all flows, and of those that are open
    double highest = 0;         // no flow on it has a higher level
    int flows = 0;
    bool gathered = false;
    std::vector<int> flow;    // by level, ascending, with gaps where one has gone
    std::vector<int> opened;  // taken out of these to be looked at
  };

  // The bottleneck of a level: a link, or (~number) a flow that has reached its bound.
  using Full = std::pair<double, int>;

  static constexpr double kOpen = -1;  // below all levels
  static constexpr int kGap = -1;

  bool is_open(int flow) const { return level_[index(flow)] == kOpen; }
  int take_shares(int count);
  // What the flow has of the link of one of its shares.
  Load load(const Flow& flow, int share) const { return flow.is_even ? Load{flow.weight, flow.rate} : loads_[index(share)]; }
  void leave(const Flow& flow, int share);
  void gather();
  void reach(int link);
  void open_highest(Link& link);
  // Asks memory for what is read of those flows that come some steps after a place of a list. Large networks wait for it most of the time.
  void prefetch(const std::vector<int>& flows, int place, int step) const;
  void open(int flow);
  void fill();
  // The lowest of the pending bottlenecks, taken out; there is some.
  Full take_lowest();
  void push(double level, int what);
  void fix_all(const Link& link, double level);
  void fix(int flow, double level, std::int64_t rate, Wide weight);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<double> level_;  // of each flow: new ones have the highest, and those that are open kOpen
  std::vector<Share> shares_;
  std::vector<Load> loads_;                                 // of shares of flows that are not even, at the same places
  std::unordered_map<int, std::vector<int>> spare_shares_;  // by how many
  std::vector<int> spare_flows_;
  std::vector<int> touched_;   // links whose flows have come or gone
  double lowest_;              // no level below it changes
  std::vector<int> gathered_;  // links that are looked at
  std::vector<int> opened_;    // flows that are looked at
  std::vector<Full> full_;     // in order, at which levels links would be full if no flow were fixed elsewhere,
  std::size_t next_full_ = 0;  // the next of them,
  std::vector<Full> heap_;     // and those that come later than was thought
};

}  // namespace astra::flow
