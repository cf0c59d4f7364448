// The serializers of narrow links whose credits go in parts (see serialized_credits.hpp), and what Garnet's order of events means for them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/flit.hpp"
#include "base/index.hpp"
#include "base/neighbour.hpp"
#include "links/serialized_credits.hpp"
#include "network/shape.hpp"
#include "replay/snapshot.hpp"
#include "timing/garnet_event_order.hpp"

namespace astra::packet {

class CreditSerializers {
 public:
  CreditSerializers(const Shape& shape, GarnetEventOrder& calls) : shape_(shape), calls_(calls), parts_(shape.link.size()) {
    for (int c = 0; c < shape.channels(); ++c) {
      const int parts = narrow<int>(at(shape.channel, c).flit_time.cycles);
      if (!shape.rules.serialized_credits || parts <= 1) continue;
      at(parts_, c).emplace(parts, shape.vc_count(c));
      any_ = true;
    }
  }

  // Whether a channel has one.
  bool any() const { return any_; }
  // That of a channel, if it has one.
  const std::optional<SerializedCredits>& of(int c) const { return at(parts_, c); }

  // A credit comes to the serializer of a channel in cycle `takes`. Returns when its first part can be at the other end.
  Cycle push(int c, Cycle takes, std::uint16_t vc, bool frees) {
    const ChannelSpec& spec = at(shape_->channel, c);
    at(parts_, c)->push(takes, takes + spec.serializer, vc, frees);
    return takes + 2 * spec.serializer + spec.latency.cycles;
  }
  // Whether a credit that the receiver gives back in cycle `now` comes to the serializer, a cycle later, before the wires take their part
  // of that cycle. Calls take(output) for the outputs of the receiver, of which it must know the credits that have come.
  template <class Take>
  bool comes_before_part(int c, Cycle now, Take take);
  // Lets parts leave up to cycle `now`; calls pass(credit) for the last part of each credit.
  template <class Pass>
  void run(int c, Cycle now, Pass pass) {
    const Cycle rest = behind_wires(c);
    at(parts_, c)->run(now, [&](Cycle leaves, std::uint16_t vc, bool frees) { pass(Credit{leaves + rest, vc, frees}); });
  }
  // When the sender can use what leaves next at the soonest, or kNever where nothing waits.
  Cycle next(int c) const {
    const std::optional<SerializedCredits>& parts = of(c);
    return parts && !parts->empty() ? parts->next() + behind_wires(c) : kNever;
  }
  // The sender takes a credit, which has called it if that is a router.
  void call_sender(int c, const Credit& credit) {
    const int sender = at(shape_->link, c).source;
    if (shape_->is_router(sender)) calls_->call(sender, c, credit.time - shape_->rules.credit_delay);
  }

  void snapshot(Snapshot& snapshot, int c) const {
    if (of(c)) of(c)->each(snapshot.now(), [&](std::int64_t value) { snapshot.put(value); });
  }
  void shift(Cycle later) {
    for (std::optional<SerializedCredits>& parts : parts_) {
      if (parts) parts->shift(later);
    }
  }

 private:
  // Cycles from the wires until the sender can use a credit.
  Cycle behind_wires(int c) const {
    const ChannelSpec& spec = at(shape_->channel, c);
    return spec.latency.cycles + spec.serializer + shape_->rules.credit_delay;
  }

  Neighbour<const Shape> shape_;
  Neighbour<GarnetEventOrder> calls_;
  std::vector<std::optional<SerializedCredits>> parts_;  // by channel
  bool any_ = false;
};

// In a cycle, the latest request is handled first. The router asks for the credit in cycle `now`, the wires ask for their next part
// when they take one. So the credit comes first if in cycle `now` the wires had their turn before the router, which is so if they asked for
// it later than the router (or others for it).
template <class Take>
bool CreditSerializers::comes_before_part(int c, Cycle now, Take take) {
  const SerializedCredits& parts = *of(c);
  if (parts.empty() || parts.next() > now + 1) return true;  // they take none
  const Cycle pushed = parts.pushed_before(now);
  if (pushed == now - 1) return true;  // the serializer has asked for this part, before the router for the credit
  const int r = at(shape_->link, c).sink;
  for (int out : at(shape_->router, r).outputs) take(out);
  calls_->settle(r, now);
  return calls_->wires_come_first(r, c, pushed, now);
}

}  // namespace astra::packet
