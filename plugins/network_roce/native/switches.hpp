// Switches: incoming packets are counted in shared memory, wait at their output port, and may be marked or measured when they leave.
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
  Switches(const Settings& settings, const Plan& plan, Events& events, Packets& packets, Flows& flows, Wires& wires, PathChoices& next_hops,
           Random& random, Monitor& monitor)
      : settings_(settings),
        plan_(plan),
        packets_(packets),
        flows_(flows),
        wires_(wires),
        path_choices_(next_hops),
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
  // Drop the packets that wait at the port of a link that has failed.
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
  // Send the next packet of a port that is free.
  void send_next(LinkId port);
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
  PathChoices& path_choices_;
  Random& random_;
  Monitor& monitor_;
  OutputQueues queues_;
  SharedBuffers buffers_;
  Telemetry telemetry_;
};

inline void Switches::take(LinkId link, PacketId id) {
  Packet& packet = packets_[id];
  const std::uint32_t queue = packet.queue;
  const std::uint32_t bytes = packet.bytes;
  const LinkId port = path_choices_.choose(link, id);
  if (port == kNone) {
    ++monitor_.losses;
    return drop(id);
  }
  if (!buffers_.admit(link, queue, bytes)) {
    ++monitor_.drops;
    return drop(id);
  }
  if (settings_.pauses && buffers_.must_pause(link, queue)) tell_peer(link, queue, Kind::pause);  // may move all packets in memory
  if (!wires_.is_free(port)) {
    queues_.push(port, queue, id);
    return wires_.tell_when_free(port);
  }
  if (queues_.would_be_next(port, queue)) {
    queues_.pass(port, queue, bytes);
    return send(port, id);
  }
  queues_.push(port, queue, id);
  send_next(port);
}

inline void Switches::send(LinkId port, PacketId id) {
  Packet& packet = packets_[id];
  if (packet.queue != 0) leave(port, packet);
  telemetry_.write(port, id);
  wires_.send(port, id);
}

inline void Switches::serve(LinkId port) {
  if (!wires_.is_free(port)) {
    if (queues_.waiting(port) > 0) wires_.tell_when_free(port);
    return;
  }
  send_next(port);
}

inline void Switches::send_next(LinkId port) {
  const PacketId id = queues_.pop(port);
  if (id == kNone) return;
  send(port, id);
  if (queues_.waiting(port) > 0) wires_.tell_when_free(port);
}

inline void Switches::leave(LinkId port, Packet& packet) {
  const std::uint32_t queue = packet.queue;
  buffers_.remove(packet.came_by, queue, packet.bytes);
  if (packet.kind == Kind::data && settings_.marking && is_marked(port, queue) && !packet.marked) {
    packet.marked = true;
    ++monitor_.marks;
  }
  if (settings_.pauses && buffers_.may_resume(packet.came_by, queue)) tell_peer(packet.came_by, queue, Kind::resume);
}

}  // namespace astra::roce
