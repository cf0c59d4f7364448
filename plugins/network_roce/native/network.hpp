// The network: the loop that lets events happen.
#pragma once

#include <astra_sim/interrupt.hpp>
#include <cstdint>
#include <vector>

#include "deadlock.hpp"
#include "event.hpp"
#include "failures.hpp"
#include "parts.hpp"
#include "prefetcher.hpp"
#include "queue_samples.hpp"
#include "repetition.hpp"
#include "settings.hpp"

namespace astra::roce {

class Network : public Interruptible<1U << 14> {
 public:
  Network(Settings settings, Plan plan);

  // Take a message that is sent at a time, which is not before the last event. Throws InvalidMessage.
  void inject(Tick time, const MessageSpec& message);
  // Go on until messages are delivered, but not beyond a time. Returns whether there are any: they are in `delivered`. Throws Deadlock.
  bool advance(Tick until);

  // Simulate the periods that were only played back since the network was idle, so that all figures are those of now. They are not before.
  void settle() {
    if (repetition_.plays()) catch_up();
  }

  Tick now() const { return repetition_.plays() ? repetition_.now() : parts_.events.now(); }
  const std::vector<Delivery>& delivered() const { return parts_.endpoints.delivered; }
  const Parts& parts() const { return parts_; }
  const Settings& settings() const { return parts_.settings; }
  Monitor& monitor() { return parts_.monitor; }
  // Sample the queues of switches at equal intervals in ticks, from now on.
  void sample_queues(Tick interval) {
    samples_.begin(interval, parts_.plan);
    repetition_.disable();
  }
  const QueueSamples& samples() const { return samples_; }
  std::uint64_t events_played_back() const { return repetition_.events_played_back(); }
  std::uint64_t events() const { return parts_.events.count() + repetition_.events_played_back(); }

 private:
  enum class Reached : std::uint8_t { delivery, idle, end };

  // Let events happen until messages are delivered, or the network is idle and a period is played back from there.
  Reached run(Tick until);
  // A message waits for its start.
  void post(const Start& start);
  // Simulate the periods that were only played back.
  void catch_up();
  void dispatch(EventRef event);
  // A packet comes to the end of a link, at an NPU or at a switch.
  void arrive(LinkId link, PacketId id, bool ends);
  // A timer of congestion control goes off.
  void ring(FlowId flow, EventKind timer);
  void take_pause(LinkId link, const Packet& packet);
  // Throw Deadlock where an event is a timer that can change nothing.
  void look_for_an_end(EventRef event);
  [[noreturn]] void give_up() const;

  Parts parts_;
  Prefetcher prefetcher_;
  Failures failures_;
  Repetition repetition_;
  QueueSamples samples_;
  std::uint64_t idle_timeouts_ = 0;  // since something moved
  Tick reached_ = 0;                 // the last answer
};

}  // namespace astra::roce
