// Counters. All are sums of integers, so that the counts of a period can be multiplied, and threads (see thread_team.hpp) can count
// apart.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"

namespace astra::packet {

struct Statistics {
  static constexpr int kBuckets = 64;  // bucket b > 0 of a histogram counts values from 2^(b-1) to 2^b - 1 cycles

  enum Total {
    kPackets,    // received
    kFlits,      // received
    kHops,       // links between routers crossed by received packets
    kFlitHops,   // flits put on links between routers: see Domain::statistics
    kQueueing,   // cycles of received packets from when they were made to the departure of the head
    kInNetwork,  // cycles of received packets from there to the arrival of the tail
    kQueueingBucket,
    kInNetworkBucket = kQueueingBucket + kBuckets,
    kTotals = kInNetworkBucket + kBuckets,
  };
  enum PerChannel {
    kChannelFlits,
    kChannelPackets,
    kChannelWaiting,  // flit cycles spent in the buffers behind the channel
    kPerChannel,
  };

  explicit Statistics(int channels) : counters(kTotals + index(channels) * kPerChannel) {}

  void set(Total which, std::int64_t value) { at(counters, which) = value; }
  void add(int channel, PerChannel which, std::int64_t value) { counters[place(channel, which)] += value; }
  std::int64_t of(int channel, PerChannel which) const { return counters[place(channel, which)]; }
  std::int64_t total(int which) const { return at(counters, which); }

  // A flit has been put on a channel.
  void sent(int channel, bool head) {
    std::int64_t* const of_channel = &counters[place(channel, kChannelFlits)];
    ++of_channel[kChannelFlits];
    of_channel[kChannelPackets] += head;
  }
  // A thread has received a packet. `settle` adds the threads' counts to the total.
  void received(int thread, std::int64_t queueing, std::int64_t in_network, int flits, int hops) {
    std::int64_t* const totals = thread == 0 ? counters.data() : at(apart_, thread - 1).data();
    ++totals[kPackets];
    totals[kFlits] += flits;
    totals[kHops] += hops;
    totals[kQueueing] += queueing;
    totals[kInNetwork] += in_network;
    ++totals[kQueueingBucket + bucket(queueing)];
    ++totals[kInNetworkBucket + bucket(in_network)];
  }
  void employ(int threads) { apart_.resize(std::max(apart_.size(), index(threads - 1))); }
  void settle() {
    for (std::array<std::int64_t, kTotals>& totals : apart_) {
      if (totals[kPackets] == 0) continue;
      for (std::size_t i = 0; i < totals.size(); ++i) counters[i] += totals[i];
      totals.fill(0);
    }
  }

  // The counts since `before` are repeated `times` times more.
  void repeat(const std::vector<std::int64_t>& before, std::int64_t times) {
    for (std::size_t i = 0; i < counters.size(); ++i) counters[i] += times * (counters[i] - before[i]);
  }

  static int bucket(std::int64_t value) { return value <= 0 ? 0 : std::bit_width(static_cast<std::uint64_t>(value)); }

  std::vector<std::int64_t> counters;

 private:
  std::vector<std::array<std::int64_t, kTotals>> apart_;  // by thread, from the second on: totals since the last window

  static std::size_t place(int channel, PerChannel which) { return kTotals + index(channel) * kPerChannel + index(which); }
};

}  // namespace astra::packet
