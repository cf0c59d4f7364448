// Weighted max-min fair shares of links.
//
// A flow takes so much of a link as its rate times its share there. Filling raises the level of all flows together. The rate of a flow is
// the level times its weight, until a link that it uses is full, or its bound is reached; there it stays (progressive filling: Bertsekas
// and Gallager, Data Networks, 1992, 6.5.2).
//
// Only levels that can change are computed again. A flow that goes leaves all levels below its own as they are, and so does one that comes;
// of the others only those count that are joined to it by links which they share.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bottlenecks.hpp"
#include "runs.hpp"
#include "sharing.hpp"

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

class WeightedSharing final : public Sharing {
 public:
  // Capacities of links, above 0 and up to 2^50. The rate of a flow, which may use a small part of a link only, must be below 2^63.
  explicit WeightedSharing(const std::vector<std::int64_t>& capacity);

  int add(std::int64_t weight, std::int64_t bound, std::span<const std::pair<int, std::int64_t>> links) override;
  void remove(int flow) override;
  bool settle() override;
  int links() const override { return count_of(links_); }
  bool has(int flow) const override { return flow >= 0 && flow < count_of(flows_) && flows_[index(flow)].count > 0; }
  std::int64_t rate(int flow) const override { return flows_[index(flow)].rate; }
  int flows_on(int link) const override { return links_[index(link)].flows; }

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

  static constexpr double kOpen = -1;  // below all levels
  static constexpr int kGap = -1;

  bool is_open(int flow) const { return level_[index(flow)] == kOpen; }
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
  void fix_all(const Link& link, double level);
  void fix(int flow, double level, std::int64_t rate, Wide weight);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<double> level_;  // of each flow: new ones have the highest, and those that are open kOpen
  Runs<Share> shares_;
  std::vector<Load> loads_;  // of shares of flows that are not even, at the same places
  std::vector<int> spare_flows_;
  std::vector<int> touched_;   // links whose flows have come or gone
  double lowest_;              // no level below it changes
  std::vector<int> gathered_;  // links that are looked at
  std::vector<int> opened_;    // flows that are looked at
  Bottlenecks bottlenecks_;    // links, and (~number) flows that reach their bound
};

}  // namespace astra::flow
