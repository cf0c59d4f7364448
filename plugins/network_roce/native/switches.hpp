// Switches: what comes in is counted in shared memory, waits at its output port, and may be marked or measured when it leaves.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "events.hpp"
#include "flows.hpp"
#include "load_balancing.hpp"
#include "monitor.hpp"
#include "output_queues.hpp"
#include "packets.hpp"
#include "random.hpp"
#include "settings.hpp"
#include "shared_buffer.hpp"
#include "telemetry.hpp"
#include "wires.hpp"

namespace astra::roce {

class Switches {
 public:
  Switches(const Settings& settings, const Plan& plan, Events& events, Packets& packets, Flows& flows, Wires& wires, Ways& ways,
           Random& random, Monitor& monitor)
      : settings_(settings),
        plan_(plan),
        packets_(packets),
        flows_(flows),
        wires_(wires),
        ways_(ways),
        random_(random),
        monitor_(monitor),
        queues_(plan.links.size(), packets),
        buffers_(settings, plan),
        telemetry_(settings, plan, events, packets, queues_, wires, random) {}

  // A packet of data or an acknowledgement has come to a switch by a link.
  void take(LinkId link, PacketId id);
  // Send the next packet of a port, if it is free.
  void serve(LinkId port);
  void pause(LinkId port, std::uint32_t queue) { queues_.pause(port, queue); }
  void resume(LinkId port, std::uint32_t queue) {
    queues_.resume(port, queue);
    serve(port);
  }
  // Drop what waits at the port of a link that has failed.
  void fail(LinkId port);

  void snapshot(LinkId link, Snapshot& snapshot) const {
    queues_.snapshot(link, snapshot);
    buffers_.snapshot(link, snapshot);
  }
  void snapshot_node(NodeId node, Snapshot& snapshot) const { buffers_.snapshot_node(node, snapshot); }

  const OutputQueues& queues() const { return queues_; }
  OutputQueues& queues() { return queues_; }
  const SharedBuffers& buffers() const { return buffers_; }

 private:
  // Send a packet that has come out of its queue on a port that is free.
  void send(LinkId port, PacketId id);
  // A packet leaves the queue of a port: memory becomes free, and it may be marked.
  void leave(LinkId port, Packet& packet);
  bool is_marked(LinkId port, std::uint32_t queue);
  // Send a pause or a resume to the node at the other end of a link that comes in.
  void tell_peer(LinkId link, std::uint32_t queue, Kind kind);
  void drop(PacketId id);

  const Settings& settings_;
  const Plan& plan_;
  Packets& packets_;
  Flows& flows_;
  Wires& wires_;
  Ways& ways_;
  Random& random_;
  Monitor& monitor_;
  OutputQueues queues_;
  SharedBuffers buffers_;
  Telemetry telemetry_;
};

}  // namespace astra::roce
