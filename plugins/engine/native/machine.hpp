// The engine: owns its parts, and dispatches events. Its meaning is that of astra_sim/engine/reference, which has the same parts
// with the same names in Python. Its input is described in astra_sim/engine/interface.py.
//
//   causes           which event has brought about which
//   events           events, and their order
//   processors       compute, and handling of messages if that takes time
//   transport        messages on their way through the network
//   shared_bus       the bus between an NPU and its memory, if endpoints share one
//   phase_kinds      what is said of phases before the run: groups, schedules, how they end
//   phases           the ranks of a collective's phase, which run its schedule
//   agreement        orders that NPUs have in common
//   waiting, queues  the queues of an NPU, and the jobs in them
//   chunks           the chunks of a collective on an NPU, and the queues through which they pass
//   collectives      which chunks a collective becomes, and who shares them
//   point_to_point   messages between two tasks
//   durations        how long tasks take that send and receive nothing
//   tasks            the programs of NPUs, and the units that their tasks need
//   record           what is known of a run
#pragma once

#include <cstdint>
#include <vector>

#include "agreement.hpp"
#include "chunks.hpp"
#include "collectives.hpp"
#include "durations.hpp"
#include "events.hpp"
#include "host.hpp"
#include "interface.hpp"
#include "phase_kinds.hpp"
#include "phases.hpp"
#include "point_to_point.hpp"
#include "processors.hpp"
#include "record.hpp"
#include "tasks.hpp"
#include "transport.hpp"

namespace astra::engine {

class Machine : private ChunkListener {
 public:
  Machine(Options options, Host& host);

  Time now() const { return events_.now(); }
  std::uint64_t events() const { return events_.happened(); }
  std::uint64_t messages() const { return transport_.messages(); }
  std::uint64_t ended() const { return tasks_.ended(); }
  std::size_t undelivered() const { return transport_.undelivered(); }  // messages that an event network has

  // These raise std::invalid_argument for invalid input.
  void set_table(const NetworkTable& table) { transport_.set_table(table); }
  void add_queues(const std::vector<QueuePlan>& plans);
  void set_traffic_classes(std::int32_t without_queue, std::vector<std::int32_t> of_queues);
  void add_ports(const std::vector<std::int64_t>& ports);
  void set_compute_times() { durations_.set_compute_times(); }
  void set_overheads(bool compute);
  void add_program(ProgramColumns columns, const std::vector<std::int64_t>& npus, std::int64_t agreement) {
    tasks_.add_program(std::move(columns), npus, agreement);
  }
  GroupsId add_groups(std::vector<NpuId> members, std::uint32_t size, bool loop_back);
  ScheduleId add_schedule(RankPrograms programs, GroupsId groups);
  PhaseKindId add_phase(ScheduleId schedule, std::int32_t queue, bool together, Time endpoint_ps, bool barrier);

  Record& record() { return record_; }

  // Run until nothing is left (false), or for some events (0: without end) and the rest of their instant (true).
  bool run(std::uint64_t events);

 private:
  // Give an event to the part that it belongs to.
  void handle(const Event& payload);
  void handle(const EventPayload& what, const Run& run);
  // A message has reached its destination.
  void land(HandledId message);
  // The kind of an event.
  Label label(const EventPayload& what) const;
  // The one way back up: the last chunk of a collective lets its task end.
  void chunk_ended(TaskId task, CollectiveId collective) override;

  Options options_;
  Events events_;
  Processors processors_;
  Transport transport_;
  PhaseKinds phase_kinds_;
  Phases phases_;
  Agreements agreements_;
  Chunks chunks_;
  Collectives collectives_;
  PointToPoint point_to_point_;
  TaskDurations durations_;
  Tasks tasks_;
  Record record_;
};

}  // namespace astra::engine
