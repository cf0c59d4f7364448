// What networks need of max-min fair shares of links: `EvenSharing` where all flows have the same weight, else `WeightedSharing`.
//
// `astra_sim_network_flow.sharing` is the same in plain Python, for all flows at once. Rates are whole numbers, and those that a full link
// leaves to its flows are rounded down, so the answer does not depend on the order in which flows and links are looked at.
#pragma once

#include <algorithm>
#include <astra_sim/index.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace astra::flow {

class Sharing {
 public:
  struct Changed {
    int flow = 0;
    std::int64_t rate = 0;
  };

  static constexpr std::int64_t kNoBound = INT64_MAX;

  Sharing() = default;
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;
  virtual ~Sharing() = default;

  // A flow comes: its weight, 1 to 2^50, those on its links, and the highest rate it may have. Returns its number.
  virtual int add(std::int64_t weight, std::int64_t bound, std::span<const std::pair<int, std::int64_t>> links) = 0;

  // A flow goes. Its number is used again.
  virtual void remove(int flow) = 0;

  // Computes the rates that may have changed since the last call. Returns whether there are any.
  virtual bool settle() = 0;

  // The flows whose rates may have changed by the last `settle`, and these, in an order that the calls alone decide.
  const std::vector<Changed>& changed() const { return changed_; }

  // How many links there are, and whether a flow has come and not gone.
  virtual int links() const = 0;
  virtual bool has(int flow) const = 0;

  virtual std::int64_t rate(int flow) const = 0;
  // How many flows use a link.
  virtual int flows_on(int link) const = 0;

 protected:
  // Levels that are this near to each other, relative to their size, count as one: levels are rounded.
  static constexpr double kNear = 1e-9;

  // The level at which a link is full, of which so much is free. On one that is far slower than another, rates of 1 can be more than it
  // has.
  static double level_at(double free, double open) { return std::max(0.0, free / open); }

  std::vector<Changed> changed_;
};

}  // namespace astra::flow
