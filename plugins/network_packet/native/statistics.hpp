// Counters. All are sums of whole numbers, so that what happens in a period can be multiplied.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "flit.hpp"
#include "index.hpp"

namespace astra::packet {

struct Statistics {
  static constexpr int kBuckets = 64;  // bucket b > 0 of a histogram counts values from 2^(b-1) to 2^b - 1 cycles

  enum Total {
    kPackets,    // received
    kFlits,      // received
    kHops,       // links between routers crossed by received packets
    kFlitHops,   // flits put on links between routers
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

  void add(Total which, std::int64_t value) { at(counters, which) += value; }
  void add(int channel, PerChannel which, std::int64_t value) { counters[place(channel, which)] += value; }
  std::int64_t of(int channel, PerChannel which) const { return counters[place(channel, which)]; }
  std::int64_t total(int which) const { return at(counters, which); }

  // A flit has been put on a channel, which joins two routers or not.
  void sent(int channel, bool head, bool joins_routers) {
    std::int64_t* const of_channel = &counters[place(channel, kChannelFlits)];
    ++of_channel[kChannelFlits];
    of_channel[kChannelPackets] += head;
    counters[kFlitHops] += joins_routers;
  }
  void received(std::int64_t queueing, std::int64_t in_network, int flits, int hops) {
    add(kPackets, 1);
    add(kFlits, flits);
    add(kHops, hops);
    add(kQueueing, queueing);
    add(kInNetwork, in_network);
    ++counters[kQueueingBucket + index(bucket(queueing))];
    ++counters[kInNetworkBucket + index(bucket(in_network))];
  }

  // What has been counted since they were `before` has happened `times` times more.
  void repeat(const std::vector<std::int64_t>& before, std::int64_t times) {
    for (std::size_t i = 0; i < counters.size(); ++i) counters[i] += times * (counters[i] - before[i]);
  }

  static int bucket(std::int64_t value) { return value <= 0 ? 0 : std::bit_width(static_cast<std::uint64_t>(value)); }

  std::vector<std::int64_t> counters;

 private:
  static std::size_t place(int channel, PerChannel which) { return kTotals + index(channel) * kPerChannel + index(which); }
};

}  // namespace astra::packet
