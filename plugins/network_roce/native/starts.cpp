#include "starts.hpp"

#include <algorithm>
#include <string>

namespace astra::roce {

void Starts::add(const Start& start) {
  auto number = static_cast<std::uint32_t>(starts_.size());
  if (free_.empty()) {
    starts_.push_back(start);
  } else {
    number = free_.back();
    free_.pop_back();
    starts_[number] = start;
  }
  events_.at(start.time, EventKind::start, number);
  ++waiting_;
}

void Starts::take(std::uint32_t number) {
  Start& start = starts_[number];
  if (start.rounds > 0) {
    --start.rounds;
    return events_.at(events_.now(), EventKind::start, number);
  }
  free_.push_back(number);
  --waiting_;
  begin(start);
}

void Starts::begin(const Start& start) {
  const FlowEnds ends{start.message.source, start.message.destination, start.port, start.message.connection, start.message.number};
  const FlowMessage message{{}, start.message.bytes, start.message.bytes, start.message.number, start.time, events_.now()};
  const FlowId open = flows_.of_connection(ends, start.message.queue);
  if (open == kNone) return begin(ends, start.message.queue, message);
  flows_.put_behind(open, message);
  nics_.update(open);
  nics_.serve(flows_[open].nic);
}

void Starts::begin(const FlowEnds& ends, std::uint8_t queue, const FlowMessage& message) {
  const FlowId id = flows_.take();
  Flow& flow = flows_[id];
  flow.message = message;
  flow.bytes = message.bytes;
  flow.ends = ends;
  flow.queue = queue;
  flow.next_time = flow.timeout.since = events_.now();
  flow.nic = path_choices_.interface(flow, false);
  if (flow.nic == kNone) {
    throw InvalidMessage("there is no route from NPU " + std::to_string(ends.source) + " to NPU " + std::to_string(ends.destination));
  }
  flow.rate = flow.line_rate = wires_.rate(flow.nic);
  const bool common = settings_.common_window;
  flow.round_trip_ns = common ? routes_.longest_round_trip_ns() : routes_.round_trip_ns(ends.source, ends.destination);
  if (settings_.windows) {
    flow.window = common ? routes_.largest_product_bytes() : routes_.product_bytes(ends.source, ends.destination);
    flow.window = std::max<std::int64_t>(1, flow.window);
    if (settings_.goes_around()) flow.window *= 2;  // there and on
  }
  flows_.open_connection(id);
  path_choices_.begin(id, flow.nic);
  congestion_.begin(id);
  nics_.add(id);
}

void Starts::clear() {
  starts_.clear();
  free_.clear();
  waiting_ = 0;
}

}  // namespace astra::roce
