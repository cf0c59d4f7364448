// The engine: executes programs, queues and messages. Its meaning is that of astra_sim/engine/reference.py, whose names it uses.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "astra_sim/network.h"
#include "event_queue.hpp"
#include "host.hpp"
#include "network_table.hpp"
#include "programs.hpp"
#include "queues.hpp"
#include "shared_bus.hpp"
#include "trails.hpp"

namespace astra {

enum class NetworkKind { delays, events };

struct Options {
  std::uint32_t npus = 0;
  NetworkKind network = NetworkKind::delays;
  Time endpoint_ps = 0;
  bool rendezvous = false;
  std::unique_ptr<BusOptions> bus;
};

// A part of a chunk on an observed NPU.
struct PartRecord {
  std::uint32_t task, part;
  Time queued_at = -1, started_at = -1, ended_at = -1;
  Time delay_sum = 0;
  std::uint32_t received = 0;
};

// How far a rank is that has started its part of a phase and not ended it.
struct RankState {
  std::uint32_t task, chunk, part, npu, schedule, place;
  std::int32_t credits, arrivals, next_action;
  std::vector<std::int32_t> posted;
};

// Messages of tasks that have arrived and that no task has received.
struct Unreceived {
  std::int32_t source, destination, tag;
  std::int64_t bytes;
  std::uint64_t count;
};

// A task that has not ended, and whether it has begun: one that is ready may wait for its unit.
struct Unfinished {
  std::uint32_t npu, task;
  bool begun;
};

class Machine : private BusHost {
 public:
  explicit Machine(Options options);
  ~Machine() override;

  // All of these raise std::invalid_argument for what cannot be.
  void add_queues(const std::vector<QueuePlan>& plans);
  void add_ports(const std::vector<std::int64_t>& ports);
  void set_table(const astra_network* table);
  // `times` are the delays of tasks that have one of their own (else -1), or nothing. The tasks that task t waits for are
  // after[after_end[t - 1]] to after[after_end[t] - 1].
  void add_program(std::vector<Task> kinds, std::vector<std::uint32_t> kind_of, std::vector<Time> times,
                   const std::vector<std::uint64_t>& after_end, const std::vector<std::uint32_t>& after, const std::vector<std::int64_t>& npus);
  std::uint32_t add_groups(std::vector<std::int32_t> members, std::int32_t size, bool loop_back);
  std::uint32_t add_schedule(std::vector<RankProgram> programs, std::uint32_t groups);
  std::uint32_t add_phase(std::uint32_t schedule, std::int32_t queue, bool together, Time endpoint_ps);
  void observe(std::uint32_t npu);

  // Run until nothing is left (false), or for some events and the rest of their instant (true).
  bool run(std::uint64_t events, Host& host);

  Time now() const { return now_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t messages() const { return messages_; }
  std::size_t undelivered() const { return under_way_.size(); }  // messages that an event network has
  void times(std::uint32_t npu, std::vector<Time>& ready, std::vector<Time>& ended) const;
  // The sends of an observed NPU that have begun, by number of the task, and when.
  std::vector<std::pair<std::uint32_t, Time>> sends(std::uint32_t npu) const;
  std::vector<Time> ended_at() const;
  std::vector<PartRecord> parts(std::uint32_t npu) const;
  std::vector<std::uint64_t> uses() const;
  TrailTimes trail(std::uint32_t phase) const;
  std::vector<Unfinished> unfinished() const;
  std::vector<Unreceived> unreceived() const;
  std::vector<RankState> stuck() const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint32_t kFollows = 1u << 31;  // on the kind of a credit: after another of its NPU
  static constexpr std::int64_t kTasks = std::int64_t{1} << 39, kRound = std::int64_t{1} << 40;
  enum Kind : std::uint32_t { arrival, request, credit, called, letter, letter_request, meeting };

  // States of a receive: what has happened to it.
  static constexpr std::uint8_t kArrived = 1, kPosted = 2, kDone = 4, kGranted = 8, kOffered = 16;
  struct Slot {
    Time posted_at;
    std::uint8_t state;
  };

  // The receives of a rank from the first that is not done: a ring of 2^n places.
  class Window {
   public:
    Window() = default;
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    ~Window() {
      if (capacity_ > kInside) delete[] outside_;
    }
    Slot& at(std::uint32_t slot);
    void done(std::uint32_t slot);
    std::uint32_t first() const { return first_; }
    std::uint32_t capacity() const { return capacity_; }
    const Slot& peek(std::uint32_t slot) const { return data()[slot & (capacity_ - 1)]; }

   private:
    static constexpr std::uint32_t kInside = 2;
    Slot* data() { return capacity_ > kInside ? outside_ : inside_; }
    const Slot* data() const { return capacity_ > kInside ? outside_ : inside_; }
    void grow(std::uint32_t slot);

    std::uint32_t first_ = 0;
    std::uint32_t capacity_ = kInside;
    union {
      Slot inside_[kInside] = {};
      Slot* outside_;
    };
  };

  struct Rank {
    const RankProgram* program = nullptr;
    std::uint32_t npu = 0;
    std::int32_t rank = 0;
    std::uint32_t chunk = kNone;  // the chunk whose part this is
    std::uint32_t order = 0;
    std::int32_t credits = 0;
    std::int32_t next_action = 0;
    std::int32_t handled = 0;
    Time credited_at = -1;
    std::uint32_t last_trail = 0;
    std::uint32_t received = 0;
    Time delay_sum = 0;
    Window window;
  };

  struct Offer {
    std::int32_t source, destination;
    std::int64_t bytes;
    Time delay;
  };

  // A phase, as often as it happens.
  struct PhaseKind {
    std::uint32_t schedule;
    std::int32_t queue;
    Time endpoint_ps;
    bool together;
    std::uint32_t trail = 0;  // with which it ended last
  };

  // A phase that happens.
  struct Phase {
    std::uint32_t kind;
    bool ended = false;
    std::uint32_t open;      // ranks that have not finished
    std::uint32_t ending;    // parts whose end has not happened
    Time ended_at = -1;
    std::uint32_t trail = 0;
    std::unique_ptr<Rank[]> ranks;
    std::unordered_map<std::uint64_t, Offer> offers;  // by part and slot: messages that wait for their request
  };

  // The chunks of a collective, or of all that repeat it.
  struct Plan {
    std::vector<Chunk> chunks;
    std::vector<std::uint32_t> phases;  // the kinds of its phases
    std::uint64_t uses = 0;             // collectives that became its chunks
    bool repeats = false;
  };

  // A collective that was issued, until its last chunk has ended.
  struct Collective {
    std::uint32_t plan;
    std::uint32_t program, task;         // which issued it first
    std::int64_t number;                 // how many were issued before
    std::vector<std::uint32_t> phases;   // those of its plan
    std::uint32_t programs_left = 0;     // programs that have not issued it
    std::uint64_t npus_left = 0;         // NPUs of the others that have not
    std::uint64_t open = 0;              // chunks under way
  };

  // A collective as a program has issued it, until its last NPU has.
  struct Issued {
    std::uint32_t collective, npus_left;
  };

  // A chunk on an NPU, in one of its parts.
  struct ChunkRun {
    std::uint32_t npu;
    std::uint32_t task;
    std::uint32_t collective;
    std::uint32_t chunk;
    std::uint32_t part;
    std::uint32_t order;
    std::uint32_t record;  // of the first part, where the NPU is observed
    bool started;
    bool used;
  };

  struct Observed {
    std::vector<Time> ready, ended;
    std::vector<std::pair<std::uint32_t, Time>> sends;  // tasks, and when they began
    std::vector<PartRecord> parts;
  };

  enum State : std::uint8_t { waiting, ready, ended };
  struct TaskState {
    std::int32_t left;  // tasks it waits for; once it is ready, chunks that have not ended
    State state;
  };

  struct Npu {
    std::uint32_t program = kNone;
    std::size_t first_task = 0;
    std::uint32_t order = 0;
    std::uint32_t task_order = 0;
    std::int32_t observed = -1;
    std::uint32_t units = kNone;  // where in units_
    Time ended_at = -1;
  };

  // The units of an NPU: heaps of the numbers of ready tasks, the last for tasks that need none, and a bit for each: which units are busy,
  // and which heaps have tasks.
  struct Units {
    std::uint32_t busy = 0, waiting = 0;
    std::vector<std::uint32_t> ready[kUnits + 1];
  };

  // A task of an NPU that waits for a message, or to send one.
  struct Waiting {
    std::uint32_t npu, task;
  };

  // Messages of one kind between two NPUs: those that have arrived, receives that wait, requests, and sends that wait for one.
  struct Mailbox {
    std::uint64_t arrived = 0, requests = 0;
    std::deque<Waiting> posted, offered;
  };

  struct MailboxKey {
    std::int32_t source, destination, tag;
    std::int64_t bytes;
    bool operator==(const MailboxKey&) const = default;
  };

  struct HashKey {
    std::size_t operator()(const MailboxKey& key) const;
  };

  struct UnderWay {
    std::uint32_t kind, source, phase, part, slot, trail;
  };

  // tasks and queues
  void start_all();
  void add_ready(Units& units, std::uint32_t npu, std::uint32_t task);
  bool next_ready(Units& units, std::uint32_t& task);
  void pump_units(std::uint32_t npu);
  void begin_message(std::uint32_t npu, std::uint32_t task, std::uint32_t order);
  void start(std::uint32_t npu, std::uint32_t task);
  bool release(std::uint32_t npu, std::uint32_t task);
  std::uint32_t issue(std::uint32_t npu, std::uint32_t task);
  std::uint32_t share(std::uint32_t program, std::uint32_t task);
  std::uint32_t make_collective(std::uint32_t program, std::uint32_t task);
  std::uint32_t make_plan(std::uint32_t program, std::uint32_t task);
  std::uint32_t make_phase(std::uint32_t kind);
  void free_if_done(std::uint32_t collective);
  void start_part(std::uint32_t chunk);
  void begin_task(std::uint32_t npu, std::uint32_t task);
  void begin_part(std::uint32_t chunk);
  void finish_task(std::uint32_t npu, std::uint32_t task);
  void finish_part(std::uint32_t chunk);
  void end_task(std::uint32_t npu, std::uint32_t task);
  void end_chunk(std::uint32_t chunk);
  void enqueue(std::uint32_t chunk, std::int32_t queue);
  void pump(std::uint32_t npu, std::int32_t queue);
  const Part& part_of(const ChunkRun& chunk) const { return plans_[collectives_[chunk.collective].plan].chunks[chunk.chunk][chunk.part]; }
  std::uint32_t phase_of(const ChunkRun& chunk) const { return collectives_[chunk.collective].phases[part_of(chunk).place]; }
  const PhaseKind& kind_of(const Phase& phase) const { return phase_kinds_[phase.kind]; }
  const Groups& groups_of(const Phase& phase) const { return groups_[schedules_[kind_of(phase).schedule]->groups]; }
  Queue& queue_of(std::int32_t queue) { return *queues_[static_cast<std::size_t>(queue)]; }
  TaskState& state_of(std::uint32_t npu, std::uint32_t task) { return task_states_[npus_[npu].first_task + task]; }
  PartRecord* record_of(const ChunkRun& chunk);

  // events
  void join_credits();
  void happen(const Event& event);
  Time after(Time delay) const;
  std::uint32_t next_order(std::uint32_t npu);
  std::uint32_t next_task_order(std::uint32_t npu);
  std::uint32_t next_trail();
  std::uint32_t trail_via(Time via);
  void replace_trail(std::uint32_t& place, std::uint32_t trail);
  void push(Time time, Kind kind, std::uint32_t npu, std::uint32_t phase, std::uint32_t part, std::uint32_t slot, Time via = -1);
  void push_event(Time time, Kind kind, std::uint32_t npu, std::uint32_t phase, std::uint32_t part, std::uint32_t slot,
                  std::uint32_t trail, std::uint32_t key);
  void push_task(Time time, std::uint32_t trail, std::uint32_t order, std::uint32_t npu, std::uint32_t chunk, std::uint32_t task);

  // messages
  Rank& rank_of(std::uint32_t phase, std::uint32_t part);
  void on_credit(std::uint32_t phase, std::uint32_t part);
  void on_arrival(std::uint32_t phase, std::uint32_t part, std::uint32_t slot);
  void on_meeting(std::uint32_t phase, std::uint32_t part, std::uint32_t slot);
  void on_request(std::uint32_t phase, std::uint32_t part, std::uint32_t slot);
  void advance(std::uint32_t phase, std::uint32_t part, Rank& rank);
  void send(std::uint32_t phase, std::uint32_t part, const Rank& rank, const Action& action);
  void post(std::uint32_t phase, std::uint32_t part, Rank& rank, const Action& action);
  void receive(std::uint32_t phase, std::uint32_t part, Rank& rank, std::uint32_t slot, Slot& state);
  void handle(std::uint32_t phase, std::uint32_t part, Rank& rank, std::int32_t slot);
  void transmit(std::int32_t source, std::int32_t destination, std::int64_t bytes, Time delay, Kind kind, std::uint32_t phase,
                std::uint32_t part, std::uint32_t slot);
  std::int32_t peer_of(std::uint32_t npu, const Task& task) const;
  std::uint32_t mailbox_of(std::int32_t source, std::int32_t destination, const Task& task);
  void send_letter(std::uint32_t mailbox, const Waiting& sender);
  void post_letter(std::int32_t source, std::int32_t destination, std::int64_t bytes, Kind kind, std::uint32_t mailbox, const Waiting& sender);
  void on_letter(std::uint32_t mailbox, const Waiting& sender);
  void on_letter_request(std::uint32_t mailbox);
  void end_letter(const Waiting& task);
  Time delay_of(std::int32_t source, std::int32_t destination, std::int64_t bytes);
  void exchange();
  bool next_delivery(Time since, Time until, Time& time);
  void finish_phase(std::uint32_t phase, const Rank& rank);

  // the bus
  std::int64_t now_ns() const override { return now_ / 1000; }
  void after(std::int64_t nanoseconds, std::uint32_t npu, std::uint32_t call) override;
  void carried(std::uint32_t npu, const Carried& credit) override;
  SharedBus& bus_of(std::uint32_t npu);

  Options options_;
  std::optional<NetworkTable> table_;
  Host* host_ = nullptr;
  Time now_ = 0;
  std::int64_t stage_ = kTasks;
  std::uint32_t trail_ = 0;       // of what happens now
  std::uint32_t next_trail_ = 0;  // of what is scheduled now, remembered for next_of_ at next_at_
  std::uint32_t next_of_ = kNone;
  Time next_at_ = -1;
  std::uint32_t via_trail_ = 0;   // the same for what is scheduled via via_at_
  std::uint32_t via_of_ = kNone;
  Time via_at_ = -1;
  std::uint64_t events_ = 0;
  std::uint64_t messages_ = 0;
  std::uint32_t order_ = 0;       // of events where NPUs wait for each other
  std::uint32_t task_order_ = 0;
  bool started_ = false;
  bool contended_ = false;        // NPUs wait for each other: for links, or for a port

  Trails trails_;
  EventQueue queue_{trails_};
  std::vector<Event> batch_, joined_;
  std::vector<std::uint32_t> next_credit_;  // of the same NPU, by place in batch_
  std::vector<std::uint32_t> last_credit_;  // of each NPU, or kNone

  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<Program> programs_;
  std::vector<Groups> groups_;
  std::vector<std::unique_ptr<Schedule>> schedules_;
  std::vector<PhaseKind> phase_kinds_;
  std::deque<Phase> phases_;
  std::vector<std::uint32_t> free_phases_;
  std::vector<Npu> npus_;
  std::vector<std::int64_t> ports_;         // of each NPU, or nothing where there are none
  std::vector<Time> port_free_at_;
  std::vector<TaskState> task_states_;
  std::vector<Observed> observed_;
  std::vector<Units> units_;
  std::deque<Mailbox> mailboxes_;
  std::unordered_map<MailboxKey, std::uint32_t, HashKey> mailbox_numbers_;
  std::vector<Plan> plans_;
  std::unordered_map<std::int32_t, std::uint32_t> planned_;               // the plans of collectives that repeat, by their number
  std::vector<Collective> collectives_;
  std::vector<std::uint32_t> free_collectives_;
  std::uint32_t part_count_ = 0;
  std::int64_t issued_count_ = 0;
  std::vector<std::unordered_map<std::uint32_t, Issued>> issued_;          // for each program, by task
  std::unordered_map<std::uint64_t, std::uint32_t> ordinals_;              // by program and group: collectives issued
  std::unordered_map<std::int32_t, std::uint32_t> sharing_;                // by group: programs that share its collectives
  std::unordered_map<std::uint64_t, std::uint32_t> shared_;                // by group and ordinal: collectives
  std::vector<ChunkRun> chunks_;
  std::vector<std::uint32_t> free_chunks_;

  std::unordered_map<std::uint64_t, std::vector<std::pair<std::int64_t, Time>>> delays_;  // by source and destination
  std::vector<std::unique_ptr<SharedBus>> buses_;
  std::unordered_map<std::uint64_t, UnderWay> under_way_;
  std::vector<astra_message> outbox_;
  std::vector<std::uint64_t> delivered_;
  Time quiet_until_ = -1;
};

}  // namespace astra
