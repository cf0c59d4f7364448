#include "timing/garnet_event_order.hpp"

namespace astra::packet {

GarnetEventOrder::GarnetEventOrder(const Shape& shape) : shape_(shape) {
  if (!shape.rules.serialized_credits) return;
  for (const ChannelSpec& spec : shape.channel) matters_ = matters_ || spec.flit_time.cycles > 1;
  if (!matters_) return;
  calls_.resize(shape.router.size());
  ready_.resize(shape.router.size());
}

void GarnetEventOrder::call(int router, int channel, Cycle cycle) {
  const Link& link = at(shape_->link, channel);
  at(calls_, router).ask(cycle, link.delay < 0 ? at(shape_->channel, channel).serializer : link.delay);
}

void GarnetEventOrder::enter_pipeline(int router, Cycle leaves) { at(ready_, router).push(leaves); }

void GarnetEventOrder::settle(int router, Cycle now) {
  RingBuffer<Cycle>& ready = at(ready_, router);
  for (; !ready.empty() && ready.front() <= now; ready.pop()) at(calls_, router).ask(ready.front(), shape_->rules.router_latency - 1);
}

// Both ask for themselves a cycle ahead as long as they have work, and their order then changes from cycle to cycle; it is settled anew
// if another asks earlier: for the wires the serializer, for the router the sender of a flit. If two ask in the same cycle the
// router has asked later; Garnet's order then depends on units further away.
bool GarnetEventOrder::wires_come_first(int router, int channel, Cycle pushed, Cycle now) const {
  const Call& call = at(calls_, router);
  const int serializer = at(shape_->channel, channel).serializer;
  const Cycle wires = pushed + serializer;
  const Cycle since = std::max(wires, call.at);
  const Cycle router_ahead = call.at == since ? call.ahead : 1;
  const Cycle wires_ahead = wires == since ? serializer : 1;
  return (router_ahead > wires_ahead) == ((now - since) % 2 == 0);
}

void GarnetEventOrder::snapshot(Snapshot& snapshot, int router) {
  settle(router, snapshot.now());
  snapshot.time(at(calls_, router).at);
  snapshot.put(at(calls_, router).ahead);
  const RingBuffer<Cycle>& ready = at(ready_, router);
  snapshot.put(ready.size());
  for (std::uint32_t i = 0; i < ready.size(); ++i) snapshot.time(ready[i]);
}

void GarnetEventOrder::shift(Cycle later) {
  for (Call& call : calls_) call.at += later;
  for (RingBuffer<Cycle>& ready : ready_) {
    for (std::uint32_t i = 0; i < ready.size(); ++i) ready[i] += later;
  }
}

}  // namespace astra::packet
