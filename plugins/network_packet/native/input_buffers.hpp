// Input buffers of routers: the flits of every virtual channel, and what the router at its end knows of the packet in front.
#pragma once

#include <vector>

#include "bits.hpp"
#include "channels.hpp"
#include "clock.hpp"
#include "flit.hpp"
#include "index.hpp"
#include "messages.hpp"
#include "neighbour.hpp"
#include "ring_buffer.hpp"
#include "shape.hpp"
#include "snapshot.hpp"
#include "statistics.hpp"

namespace astra::packet {

enum class VcState : std::uint8_t { idle, allocating, active };

struct alignas(64) InputVc {
  RingBuffer<Flit> buffer;
  Cycle since = 0;            // combined: arrival of the head; staged: when it can ask for an output virtual channel
  std::int32_t out = -1;      // channel
  std::int16_t out_port = 0;  // its number among the outputs of the router
  std::int16_t first_vc = 0;  // the virtual channels there that the packet may take
  std::int16_t end_vc = 0;
  std::int16_t out_vc = -1;  // the one it has
  VcState state = VcState::idle;
  std::int32_t channel = 0;  // it belongs to, and its number there
  std::int16_t number = 0;
  std::int32_t way = -1;  // two packets go the same way: to one output or, of a folded network, to translates of it at one distance
};

class InputBuffers {
 public:
  InputBuffers(const Shape& shape, const Clock& clock, Channels& channels, Statistics& statistics);

  InputVc& vc(int c, int number) { return at(vcs_, at(links_, c).vc_base + number); }
  const InputVc& vc(int c, int number) const { return at(vcs_, at(links_, c).vc_base + number); }
  InputVc* of_channel(int c) { return vcs_.data() + at(links_, c).vc_base; }
  // The virtual channels of a router's inputs, which stand together.
  InputVc* of_router(int r) { return vcs_.data() + at(shape_->vc_base, r); }

  // The first flit of a virtual channel goes through the crossbar to the output that its packet has; its credit goes back.
  [[gnu::always_inline]] void forward(InputVc& from, Cycle now) {
    const Rules& rules = *rules_;
    const int c = from.channel;
    const int out = from.out;
    const Flit flit = from.buffer.front();
    from.buffer.pop();
    const Cycle cycle = clock_->cycles_of(at(links_, c).sink, 1);
    statistics_->add(c, Statistics::kChannelWaiting, now - flit.time);
    channels_->use_credit(out, from.out_vc);
    if (flit.tail) {
      from.state = VcState::idle;
      if (!rules.wait_for_tail_credit) channels_->free_vc(out, from.out_vc);
    }
    channels_->send_flit(out, flit, from.out_vc, now + rules.switch_traversal * cycle);
    channels_->send_credit(c, narrow<std::uint16_t>(from.number), flit.tail, now + cycle);
  }

  bool any_flits() const;
  // Packets in a buffer follow one another, each from head to tail.
  bool in_order(int c, int number) const;

  void snapshot(Snapshot& snapshot, const Messages& messages) const;
  void shift(Cycle later);
  // Everything in the virtual channels of a channel goes over to those that `turn` counts them as.
  void turn(int c, const VcTurn& turn);

 private:
  Neighbour<const Shape> shape_;
  Neighbour<const Clock> clock_;
  Neighbour<Channels> channels_;
  Neighbour<Statistics> statistics_;
  Neighbour<const Rules> rules_;
  std::span<const Link> links_;
  std::vector<InputVc> vcs_;
};

}  // namespace astra::packet
