// Max-min fair shares of links among flows of the same weight.
//
// All flows that the same full link holds back have the same rate, and are a group of that link. When others come and go, most of them stay
// in their group while its rate changes. So a group is looked at as a whole: of each link that its flows cross, it knows how many do. Only
// a flow that another link holds back from now on is looked at by itself.
//
// Levels, which rates are looked at, and rates are those of `WeightedSharing`.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "bottlenecks.hpp"
#include "runs.hpp"
#include "sharing.hpp"

namespace astra::flow {

class EvenSharing final : public Sharing {
 public:
  // Capacities of links, above 0 and up to 2^50.
  explicit EvenSharing(const std::vector<std::int64_t>& capacity);

  // As `Sharing` says, with weights of 1 and without bound.
  int add(std::int64_t weight, std::int64_t bound, std::span<const std::pair<int, std::int64_t>> links) override;
  void remove(int flow) override;
  bool settle() override;
  int links() const override { return count_of(links_); }
  bool has(int flow) const override { return flow >= 0 && flow < count_of(flows_) && flows_[index(flow)].count > 0; }
  std::int64_t rate(int flow) const override {
    const int group = group_[index(flow)];
    return group < links() ? groups_[index(group)].rate : 0;
  }
  int flows_on(int link) const override { return count_of(users_[index(link)]); }

 private:
  struct Link {
    std::int64_t capacity = 0, free = 0;
    int fresh = 0;  // flows that have come and have no rate yet
    int open = 0;   // flows whose rates are looked at
    bool gathered = false;
  };

  // A link that flows of a group cross: how many, and the place of the group in the list of the link.
  struct Crossed {
    int link = 0, flows = 0, place = 0;
  };

  struct Group {
    std::int64_t rate = 0;
    std::vector<int> flows;
    std::vector<Crossed> crossed;  // with gaps, which no flow crosses any more
    int gaps = 0;
  };

  // A group with flows on a link, and where the link is among those that it crosses.
  struct Crossing {
    int group = 0, crossed = 0;
  };

  // A flow on a link, and which of its shares that is.
  struct User {
    int flow = 0, share = 0;
  };

  // A link that a flow uses, the place of the flow in the list of the link, and of the link among those that its group crosses.
  struct Share {
    int link = 0, place = 0, crossed = 0;
  };

  struct Flow {
    int first = 0, count = 0;  // its shares
    int place = 0;             // in its group
  };

  static constexpr double kOpen = -1;  // below all levels
  static constexpr double kHighest = std::numeric_limits<double>::infinity();

  bool is_open(int flow) const { return level_[index(group_[index(flow)])] == kOpen; }
  void gather();
  void reach(int link);
  void open_groups_on(int link);
  void open(int group);
  void fill();
  // The link holds back all open flows on it from now on.
  void fix(int link, double level);
  void take_newcomers(int link);
  void leave_group(int flow);
  void join_group(int flow, int group);
  void close_gaps(int group);

  std::vector<Link> links_;
  std::vector<Group> groups_;                     // of each link
  std::vector<double> level_;                     // of each group, kOpen if it has no flows; at last that of flows without group
  std::vector<std::vector<Crossing>> crossings_;  // of each link
  std::vector<std::vector<User>> users_;          // of each link
  std::vector<Flow> flows_;
  std::vector<int> group_;  // of each flow: its link; the number of links: none yet
  Runs<Share> shares_;
  std::vector<int> spare_flows_;
  std::vector<int> touched_;  // links whose flows have come or gone
  double lowest_ = kHighest;  // no level below it changes
  std::vector<int> gathered_;
  bool any_open_ = false;
  std::vector<int> slot_;  // of each link: where it is among those that the group crosses which is looked at; kNowhere between
  Bottlenecks bottlenecks_;
};

}  // namespace astra::flow
