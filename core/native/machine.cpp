#include "machine.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

namespace astra {
namespace {

constexpr std::int64_t kControlBytes = 8192;
constexpr std::int64_t kPsPerNs = 1000;

[[noreturn]] void invalid(const std::string& what) { throw std::invalid_argument(what); }

std::uint64_t pair_key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

void check_peer(const Peer& peer, std::int32_t ranks) {
  if (peer.kind == PeerKind::none) return;
  if (peer.value < 0 || (peer.kind != PeerKind::exclusive_or && peer.value >= ranks)) invalid("a peer outside of its group");
  if (peer.kind != PeerKind::exclusive_or) return;
  if ((ranks & (ranks - 1)) == 0 ? peer.value >= ranks : true) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      if ((rank ^ peer.value) >= ranks) invalid("a peer outside of its group");
    }
  }
}

}  // namespace

// -- windows ----------------------------------------------------------------------------------------------------------

Machine::Slot& Machine::Window::at(std::uint32_t slot) {
  if (slot < first_) throw std::logic_error("a receive was met twice");
  if (slot - first_ >= capacity_) grow(slot);
  return data()[slot & (capacity_ - 1)];
}

void Machine::Window::done(std::uint32_t slot) {
  at(slot).state |= kDone;
  while (data()[first_ & (capacity_ - 1)].state & kDone) {
    data()[first_ & (capacity_ - 1)] = Slot{};
    ++first_;
  }
}

void Machine::Window::grow(std::uint32_t slot) {
  std::uint32_t capacity = capacity_;
  while (slot - first_ >= capacity) capacity *= 2;
  Slot* larger = new Slot[capacity]();
  for (std::uint32_t place = first_; place != first_ + capacity_; ++place) larger[place & (capacity - 1)] = data()[place & (capacity_ - 1)];
  if (capacity_ > kInside) delete[] outside_;
  outside_ = larger;
  capacity_ = capacity;
}

// -- building ---------------------------------------------------------------------------------------------------------

Machine::Machine(Options options) : options_(std::move(options)), npus_(options_.npus) {
  if (options_.npus == 0) invalid("an engine without NPUs");
  if (options_.endpoint_ps < 0) invalid("a negative endpoint delay");
  if (options_.bus) buses_.resize(options_.npus);
  contended_ = options_.network == NetworkKind::events;
}

Machine::~Machine() = default;

void Machine::add_queues(const std::vector<QueuePlan>& plans) {
  if (started_ || !queues_.empty()) invalid("queues are given once, before the run");
  for (const QueuePlan& plan : plans) queues_.push_back(Queue::make(static_cast<std::uint32_t>(queues_.size()), plan, npus_.size()));
}

void Machine::add_ports(const std::vector<std::int64_t>& ports) {
  if (started_ || ports.size() != npus_.size()) invalid("a port for each NPU is given, before the run");
  for (const std::int64_t port : ports) {
    if (port < -1 || port >= static_cast<std::int64_t>(npus_.size())) invalid("port " + std::to_string(port));
  }
  ports_ = ports;
  std::vector<std::int64_t> used;
  std::copy_if(ports.begin(), ports.end(), std::back_inserter(used), [](std::int64_t port) { return port >= 0; });
  std::sort(used.begin(), used.end());
  contended_ = contended_ || std::adjacent_find(used.begin(), used.end()) != used.end();
  port_free_at_.assign(ports.size(), 0);
}

void Machine::set_table(const astra_network* table) {
  if (options_.network == NetworkKind::delays ? !table->delay : !table->inject || !table->advance) {
    invalid("the network function table lacks functions");
  }
  table_.emplace(table);
}

void Machine::add_program(std::vector<Task> kinds, std::vector<std::uint32_t> kind_of, std::vector<Time> times,
                          const std::vector<std::uint64_t>& after_end, const std::vector<std::uint32_t>& after,
                          const std::vector<std::int64_t>& npus) {
  if (started_) invalid("programs are given before the run");
  const std::size_t count = kind_of.size();
  if (!times.empty() && times.size() != count) invalid("a program with broken columns");
  if (count >= kNone || after_end.size() != count || after.size() != (count ? after_end.back() : 0)) invalid("a program with broken columns");
  Program program;
  for (const Task& kind : kinds) {
    if (kind.delay < 0 || kind.bytes < 0) invalid("a task with a negative delay or size");
    if (kind.repeats && kind.collective < 0) invalid("a task that repeats and has no number");
    program.has_units |= kind.unit >= 0;
  }
  std::vector<std::uint32_t> counts(count + 1, 0);
  std::uint64_t begin = 0;
  for (std::size_t task = 0; task < count; ++task) {
    if (kind_of[task] >= kinds.size() || after_end[task] < begin || after_end[task] > after.size()) invalid("a program with broken columns");
    if (begin == after_end[task]) program.first.push_back(static_cast<std::uint32_t>(task));
    for (; begin < after_end[task]; ++begin) {
      if (after[begin] >= task) {
        invalid("task " + std::to_string(task) + " waits for task " + std::to_string(after[begin]) + "; earlier ones are right");
      }
      ++counts[after[begin] + 1];
    }
  }
  for (std::size_t task = 0; task < count; ++task) counts[task + 1] += counts[task];
  program.first_successor = counts;
  program.successors.resize(counts.back());
  begin = 0;
  for (std::size_t task = 0; task < count; ++task) {
    for (; begin < after_end[task]; ++begin) program.successors[counts[after[begin]]++] = static_cast<std::uint32_t>(task);
  }
  program.npus = static_cast<std::uint32_t>(npus.size());
  const auto number = static_cast<std::uint32_t>(programs_.size());
  for (const std::int64_t npu : npus) {
    if (npu < 0 || npu >= static_cast<std::int64_t>(npus_.size())) invalid("a program is given to NPU " + std::to_string(npu));
    if (npus_[static_cast<std::size_t>(npu)].program != kNone) invalid("NPU " + std::to_string(npu) + " has a program already");
    Npu& own = npus_[static_cast<std::size_t>(npu)];
    own.program = number;
    if (program.has_units) {
      own.units = static_cast<std::uint32_t>(units_.size());
      units_.emplace_back();
    }
    for (const Task& kind : kinds) {
      if (kind.kind != TaskKind::send && kind.kind != TaskKind::receive) continue;
      const std::int32_t peer = peer_of(static_cast<std::uint32_t>(npu), kind);
      if (peer == npu || peer < 0 || peer >= static_cast<std::int64_t>(npus_.size())) invalid("a message to or from NPU " + std::to_string(peer));
    }
    own.first_task = task_states_.size();
    std::uint64_t first = 0;
    for (const std::uint64_t end : after_end) {
      task_states_.push_back({static_cast<std::int32_t>(end - first), waiting});
      first = end;
    }
    if (own.observed >= 0) {
      observed_[static_cast<std::size_t>(own.observed)].ready.assign(count, -1);
      observed_[static_cast<std::size_t>(own.observed)].ended.assign(count, -1);
    }
  }
  std::vector<std::int32_t> groups;
  for (const Task& kind : kinds) {
    if (kind.kind == TaskKind::collective && kind.group >= 0) groups.push_back(kind.group);
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (const std::int32_t group : groups) ++sharing_[group];
  program.kinds = std::move(kinds);
  program.kind_of = std::move(kind_of);
  program.times = std::move(times);
  programs_.push_back(std::move(program));
  issued_.emplace_back();
}

std::uint32_t Machine::add_groups(std::vector<std::int32_t> members, std::int32_t size, bool loop_back) {
  if (size < 1 || members.empty() || members.size() % static_cast<std::size_t>(size)) invalid("members that make no groups of one size");
  Groups groups;
  groups.part_of.assign(npus_.size(), -1);
  groups.size = size;
  groups.loop_back = loop_back;
  groups.members = std::move(members);
  for (std::size_t part = 0; part < groups.members.size(); ++part) {
    const std::int32_t npu = groups.members[part];
    if (npu < 0) invalid("a group with a negative NPU");
    if (part >= groups.parts()) continue;
    if (static_cast<std::size_t>(npu) >= npus_.size()) invalid("a group with NPU " + std::to_string(npu) + ", which does not exist");
    if (groups.part_of[static_cast<std::size_t>(npu)] >= 0) invalid("NPU " + std::to_string(npu) + " is in a group twice");
    groups.part_of[static_cast<std::size_t>(npu)] = static_cast<std::int32_t>(part);
  }
  groups_.push_back(std::move(groups));
  return static_cast<std::uint32_t>(groups_.size() - 1);
}

std::uint32_t Machine::add_schedule(std::vector<RankProgram> programs, std::uint32_t groups) {
  if (groups >= groups_.size()) invalid("a schedule for groups that do not exist");
  const std::int32_t ranks = groups_[groups].size;
  if (programs.size() != 1 && programs.size() != static_cast<std::size_t>(ranks)) invalid("a schedule with a wrong number of programs");
  std::vector<std::vector<bool>> met(programs.size());
  for (std::size_t place = 0; place < programs.size(); ++place) met[place].resize(programs[place].memory_ps.size());
  for (std::size_t place = 0; place < programs.size(); ++place) {
    const RankProgram& program = programs[place];
    const std::size_t receives = program.memory_ps.size();
    if (program.starts < 0 || program.credits != program.starts + static_cast<std::int64_t>(receives)) invalid("a program whose credits do not add up");
    if (options_.bus && program.carriages.size() != static_cast<std::size_t>(program.credits)) invalid("a program without carriages");
    std::size_t received = 0;
    for (const Action& action : program.actions) {
      if (action.after < 0 || action.after_arrivals < 0 || action.bytes < 0) invalid("a step with a negative number");
      check_peer(action.to, ranks);
      check_peer(action.from, ranks);
      if (action.to.kind != PeerKind::none) {
        const std::size_t target =
            programs.size() == 1 ? 0 : static_cast<std::size_t>(action.to.of(static_cast<std::int32_t>(place), ranks));
        if (action.slot < 0 || static_cast<std::size_t>(action.slot) >= met[target].size() || met[target][static_cast<std::size_t>(action.slot)]) {
          invalid("a message that meets no receive of its own");
        }
        met[target][static_cast<std::size_t>(action.slot)] = true;
      }
      if (action.from.kind != PeerKind::none) {
        if (action.receive_slot != static_cast<std::int64_t>(received)) invalid("receives out of order");
        ++received;
      }
    }
    if (received != receives) invalid("a program whose receives do not add up");
  }
  auto schedule = std::make_unique<Schedule>();
  schedule->programs = std::move(programs);
  schedule->groups = groups;
  schedules_.push_back(std::move(schedule));
  return static_cast<std::uint32_t>(schedules_.size() - 1);
}

std::uint32_t Machine::add_phase(std::uint32_t schedule, std::int32_t queue, bool together, Time endpoint_ps) {
  if (endpoint_ps < 0) invalid("a negative endpoint delay");
  if (schedule >= schedules_.size()) invalid("a phase of a schedule that does not exist");
  phase_kinds_.push_back({schedule, queue, endpoint_ps, together});
  return static_cast<std::uint32_t>(phase_kinds_.size() - 1);
}

void Machine::observe(std::uint32_t npu) {
  if (npu >= npus_.size() || npus_[npu].program != kNone) invalid("an NPU is observed from before it has its program");
  if (npus_[npu].observed >= 0) return;
  npus_[npu].observed = static_cast<std::int32_t>(observed_.size());
  observed_.emplace_back();
}

// -- answers ----------------------------------------------------------------------------------------------------------

void Machine::times(std::uint32_t npu, std::vector<Time>& ready, std::vector<Time>& ended) const {
  if (npu >= npus_.size() || npus_[npu].observed < 0) invalid("NPU " + std::to_string(npu) + " is not observed");
  const Observed& observed = observed_[static_cast<std::size_t>(npus_[npu].observed)];
  ready = observed.ready;
  ended = observed.ended;
}

std::vector<std::pair<std::uint32_t, Time>> Machine::sends(std::uint32_t npu) const {
  if (npu >= npus_.size() || npus_[npu].observed < 0) invalid("NPU " + std::to_string(npu) + " is not observed");
  std::vector<std::pair<std::uint32_t, Time>> found = observed_[static_cast<std::size_t>(npus_[npu].observed)].sends;
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Time> Machine::ended_at() const {
  std::vector<Time> times;
  for (const Npu& npu : npus_) times.push_back(npu.ended_at);
  return times;
}

std::vector<PartRecord> Machine::parts(std::uint32_t npu) const {
  if (npu >= npus_.size() || npus_[npu].observed < 0) invalid("NPU " + std::to_string(npu) + " is not observed");
  std::vector<PartRecord> records = observed_[static_cast<std::size_t>(npus_[npu].observed)].parts;
  for (const ChunkRun& chunk : chunks_) {
    if (!chunk.used || !chunk.started || chunk.npu != npu || part_of(chunk).phase < 0) continue;
    const Phase& phase = phases_[phase_of(chunk)];
    const Rank& rank = phase.ranks[static_cast<std::size_t>(groups_of(phase).part_of[npu])];
    records[chunk.record + chunk.part].delay_sum = rank.delay_sum;
    records[chunk.record + chunk.part].received = rank.received;
  }
  return records;
}

std::vector<std::uint64_t> Machine::uses() const {
  std::vector<std::uint64_t> counts;
  for (const Plan& plan : plans_) counts.push_back(plan.uses);
  return counts;
}

TrailTimes Machine::trail(std::uint32_t phase) const {
  if (phase >= phase_kinds_.size()) invalid("a phase that does not exist");
  return trails_.times(phase_kinds_[phase].trail);
}

std::vector<Unfinished> Machine::unfinished() const {
  std::vector<Unfinished> found;
  for (std::uint32_t npu = 0; npu < npus_.size(); ++npu) {
    if (npus_[npu].program == kNone) continue;
    const Program& program = programs_[npus_[npu].program];
    std::vector<std::uint32_t> waiting;  // for their unit
    if (program.has_units) {
      for (const std::vector<std::uint32_t>& heap : units_[npus_[npu].units].ready) waiting.insert(waiting.end(), heap.begin(), heap.end());
      std::sort(waiting.begin(), waiting.end());
    }
    for (std::uint32_t task = 0; task < program.size(); ++task) {
      const State state = task_states_[npus_[npu].first_task + task].state;
      const bool begun = state == ready && !std::binary_search(waiting.begin(), waiting.end(), task);
      if (state != ended) found.push_back({npu, task, begun});
    }
  }
  return found;
}

std::vector<Unreceived> Machine::unreceived() const {
  std::vector<Unreceived> found;
  for (const auto& [key, place] : mailbox_numbers_) {
    const std::uint64_t count = mailboxes_[place].arrived;
    if (count > 0) found.push_back({key.source, key.destination, key.tag, key.bytes, count});
  }
  return found;
}

std::vector<RankState> Machine::stuck() const {
  std::vector<RankState> found;
  for (const ChunkRun& chunk : chunks_) {
    if (!chunk.used || !chunk.started || part_of(chunk).phase < 0) continue;
    const Phase& phase = phases_[phase_of(chunk)];
    const std::int32_t place = groups_of(phase).part_of[chunk.npu];
    const Rank& rank = phase.ranks[static_cast<std::size_t>(place)];
    RankState state{chunk.task,      chunk.chunk,  chunk.part,    chunk.npu,        kind_of(phase).schedule,
                    static_cast<std::uint32_t>(place), rank.credits, static_cast<std::int32_t>(rank.received), rank.next_action, {}};
    for (std::uint32_t slot = rank.window.first(); slot != rank.window.first() + rank.window.capacity(); ++slot) {
      if ((rank.window.peek(slot).state & (kPosted | kDone)) == kPosted) state.posted.push_back(static_cast<std::int32_t>(slot));
    }
    found.push_back(std::move(state));
  }
  std::sort(found.begin(), found.end(), [](const RankState& a, const RankState& b) {
    return std::tie(a.task, a.chunk, a.part, a.npu) < std::tie(b.task, b.chunk, b.part, b.npu);
  });
  return found;
}

// -- running ----------------------------------------------------------------------------------------------------------

bool Machine::run(std::uint64_t events, Host& host) {
  host_ = &host;
  if (!started_) start_all();
  const std::uint64_t limit = events ? events_ + events : UINT64_MAX;
  while (true) {
    if (options_.network == NetworkKind::events) exchange();
    if (queue_.empty()) return false;
    if (events_ >= limit) return true;
    queue_.pop(now_, stage_, batch_);
    if (contended_ && batch_.size() > 1 && !(stage_ & kTasks)) join_credits();
    events_ += batch_.size();
    for (const Event& event : batch_) {
      trail_ = event.trail;
      happen(event);
      trails_.drop(event.key);
      trails_.drop(event.trail);
    }
  }
}

// Let the credits of an NPU happen together, where the first of them does.
void Machine::join_credits() {
  const auto count = static_cast<std::uint32_t>(batch_.size());
  last_credit_.resize(npus_.size(), kNone);
  next_credit_.assign(count, kNone);
  joined_.clear();
  std::uint32_t place;
  // Each credit but the first of its NPU is left out, and found from the one before it.
  for (place = 0; place < count; ++place) {
    const Event& event = batch_[place];
    if (event.kind != credit) continue;
    std::uint32_t& last = last_credit_[event.npu];
    if (last != kNone) {
      next_credit_[last] = place;
      batch_[place].kind |= kFollows;
    }
    last = place;
  }
  for (place = 0; place < count; ++place) {
    if (batch_[place].kind & kFollows) continue;
    joined_.push_back(batch_[place]);
    if (batch_[place].kind != credit) continue;
    last_credit_[batch_[place].npu] = kNone;
    for (std::uint32_t next = next_credit_[place]; next != kNone; next = next_credit_[next]) {
      joined_.push_back(batch_[next]);
      joined_.back().kind = credit;
    }
  }
  batch_.swap(joined_);
}

void Machine::happen(const Event& event) {
  if (stage_ & kTasks) return event.phase == kNone ? finish_task(event.npu, event.slot) : finish_part(event.part);
  switch (event.kind) {
    case credit:
      return on_credit(event.phase, event.part);
    case arrival:
      return on_arrival(event.phase, event.part, event.slot);
    case meeting:
      return on_meeting(event.phase, event.part, event.slot);
    case request:
      return on_request(event.phase, event.part, event.slot);
    case letter:
      return on_letter(event.phase, {event.npu, event.part});
    case letter_request:
      return on_letter_request(event.phase);
    default:
      return bus_of(event.npu).call(event.slot);
  }
}

// -- tasks and queues -------------------------------------------------------------------------------------------------

void Machine::start_all() {
  started_ = true;
  for (std::uint32_t npu = 0; npu < npus_.size(); ++npu) {
    if (npus_[npu].program == kNone) continue;
    const Program& program = programs_[npus_[npu].program];
    for (const std::uint32_t task : program.first) {
      if (program.has_units) {
        add_ready(units_[npus_[npu].units], npu, task);
      } else {
        start(npu, task);
      }
    }
    if (program.has_units) pump_units(npu);
  }
}

void Machine::add_ready(Units& units, std::uint32_t npu, std::uint32_t task) {
  state_of(npu, task).state = ready;
  if (npus_[npu].observed >= 0) observed_[static_cast<std::size_t>(npus_[npu].observed)].ready[task] = now_;
  const std::int8_t unit = programs_[npus_[npu].program].task(task).unit;
  const std::int32_t number = unit < 0 ? kUnits : unit;
  std::vector<std::uint32_t>& heap = units.ready[number];
  units.waiting |= 1u << number;
  heap.push_back(task);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

// Take the ready task of the lowest number whose unit is not busy, and make it busy; false where there is none.
bool Machine::next_ready(Units& units, std::uint32_t& task) {
  std::int32_t best = -1;
  for (std::uint32_t free = units.waiting & ~units.busy; free; free &= free - 1) {
    const std::int32_t unit = __builtin_ctz(free);
    if (best < 0 || units.ready[unit].front() < units.ready[best].front()) best = unit;
  }
  if (best < 0) return false;
  std::vector<std::uint32_t>& heap = units.ready[best];
  task = heap.front();
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  heap.pop_back();
  if (heap.empty()) units.waiting &= ~(1u << best);
  if (best < kUnits) units.busy |= 1u << best;
  return true;
}

// Begin the ready tasks that find their unit free, in order of number.
void Machine::pump_units(std::uint32_t npu) {
  const Program& program = programs_[npus_[npu].program];
  std::uint32_t task = 0;
  while (next_ready(units_[npus_[npu].units], task)) {
    const TaskKind kind = program.task(task).kind;
    if (kind != TaskKind::join && kind != TaskKind::collective) {
      begin_task(npu, task);
    } else if (kind == TaskKind::join || !issue(npu, task)) {
      end_task(npu, task);
      for (std::uint32_t next = program.first_successor[task]; next != program.first_successor[task + 1]; ++next) {
        if (release(npu, program.successors[next])) add_ready(units_[npus_[npu].units], npu, program.successors[next]);
      }
    }
  }
}

// Make a task ready that waits for nothing.
void Machine::start(std::uint32_t npu, std::uint32_t first) {
  const Program& program = programs_[npus_[npu].program];
  std::vector<std::uint32_t> stack{first};
  while (!stack.empty()) {
    const std::uint32_t task = stack.back();
    stack.pop_back();
    state_of(npu, task).state = ready;
    if (npus_[npu].observed >= 0) observed_[static_cast<std::size_t>(npus_[npu].observed)].ready[task] = now_;
    if (program.task(task).kind != TaskKind::join && program.task(task).kind != TaskKind::collective) {
      begin_task(npu, task);
      continue;
    }
    if (program.task(task).kind == TaskKind::collective && issue(npu, task)) continue;
    end_task(npu, task);
    const std::size_t kept = stack.size();
    for (std::uint32_t next = program.first_successor[task]; next != program.first_successor[task + 1]; ++next) {
      if (release(npu, program.successors[next])) stack.push_back(program.successors[next]);
    }
    std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(kept), stack.end());
  }
}

// Take one wait off a task; whether that was the last.
bool Machine::release(std::uint32_t npu, std::uint32_t task) { return --state_of(npu, task).left == 0; }

// Start the chunks of a collective; how many those are.
std::uint32_t Machine::issue(std::uint32_t npu, std::uint32_t task) {
  const std::uint32_t program = npus_[npu].program;
  auto issued = issued_[program].find(task);
  if (issued == issued_[program].end()) issued = issued_[program].emplace(task, Issued{share(program, task), programs_[program].npus}).first;
  const std::uint32_t number = issued->second.collective;
  if (--issued->second.npus_left == 0) issued_[program].erase(issued);
  Collective& collective = collectives_[number];
  const std::uint32_t plan = collective.plan;
  const auto count = static_cast<std::uint32_t>(plans_[plan].chunks.size());
  --collective.npus_left;
  collective.open += count;
  state_of(npu, task).left = static_cast<std::int32_t>(count);
  if (count == 0) free_if_done(number);
  for (std::uint32_t chunk = 0; chunk < count; ++chunk) {
    ChunkRun made{npu, task, number, chunk, 0, 0, 0, false, true};
    if (npus_[npu].observed >= 0) {
      std::vector<PartRecord>& records = observed_[static_cast<std::size_t>(npus_[npu].observed)].parts;
      made.record = static_cast<std::uint32_t>(records.size());
      for (const Part& part : plans_[plan].chunks[chunk]) records.push_back({task, part.number});
    }
    std::uint32_t place;
    if (free_chunks_.empty()) {
      place = static_cast<std::uint32_t>(chunks_.size());
      chunks_.push_back(made);
    } else {
      place = free_chunks_.back();
      free_chunks_.pop_back();
      chunks_[place] = made;
    }
    start_part(place);
  }
  return count;
}

// The collective that a program issues: one that another program has issued already, or a new one.
std::uint32_t Machine::share(std::uint32_t program, std::uint32_t task) {
  const Task& kind = programs_[program].task(task);
  std::uint32_t number;
  if (kind.group < 0) {
    number = make_collective(program, task);
  } else {
    const auto group = static_cast<std::uint32_t>(kind.group);
    const std::uint32_t ordinal = ordinals_[pair_key(program, group)]++;
    auto shared = shared_.find(pair_key(group, ordinal));
    if (shared == shared_.end()) {
      number = make_collective(program, task);
      collectives_[number].programs_left = sharing_[kind.group];
      shared = shared_.emplace(pair_key(group, ordinal), number).first;
    }
    number = shared->second;
    Collective& collective = collectives_[number];
    if (programs_[collective.program].task(collective.task).collective != kind.collective) {
      throw UnlikeCollectives(program, task, collective.program, collective.task, ordinal + 1);
    }
    if (--collective.programs_left == 0) shared_.erase(shared);
  }
  collectives_[number].npus_left += programs_[program].npus;
  return number;
}

std::uint32_t Machine::make_collective(std::uint32_t program, std::uint32_t task) {
  const std::uint32_t plan = make_plan(program, task);
  std::uint32_t number;
  if (free_collectives_.empty()) {
    number = static_cast<std::uint32_t>(collectives_.size());
    collectives_.emplace_back();
  } else {
    number = free_collectives_.back();
    free_collectives_.pop_back();
  }
  Collective& collective = collectives_[number];
  collective.plan = plan;
  collective.program = program;
  collective.task = task;
  collective.number = issued_count_++;
  for (const std::uint32_t kind : plans_[plan].phases) collective.phases.push_back(make_phase(kind));
  ++plans_[plan].uses;
  return number;
}

// The plan of a collective; one that repeats is planned once.
std::uint32_t Machine::make_plan(std::uint32_t program, std::uint32_t task) {
  const Task kind = programs_[program].task(task);
  if (kind.repeats) {
    const auto known = planned_.find(kind.collective);
    if (known != planned_.end()) return known->second;
  }
  Plan plan;
  plan.chunks = host_->issue(program, task, now_);
  plan.repeats = kind.repeats;
  for (Chunk& chunk : plan.chunks) {
    if (chunk.empty()) invalid("a chunk without parts");
    for (Part& part : chunk) {
      if (part.queue >= static_cast<std::int64_t>(queues_.size())) invalid("a part in queue " + std::to_string(part.queue));
      if (part.phase >= static_cast<std::int64_t>(phase_kinds_.size())) invalid("a part of phase " + std::to_string(part.phase));
      if (part.delay < 0) invalid("a part with a negative delay");
      if (part.age < -1 || part.age > 1) invalid("a part with an age of " + std::to_string(part.age));
      part.number = part_count_++;
      if (part.phase < 0) continue;
      part.place = static_cast<std::uint32_t>(plan.phases.size());
      plan.phases.push_back(static_cast<std::uint32_t>(part.phase));
    }
  }
  const auto number = static_cast<std::uint32_t>(plans_.size());
  plans_.push_back(std::move(plan));
  if (kind.repeats) planned_.emplace(kind.collective, number);
  return number;
}

std::uint32_t Machine::make_phase(std::uint32_t kind) {
  std::uint32_t number;
  if (free_phases_.empty()) {
    number = static_cast<std::uint32_t>(phases_.size());
    phases_.emplace_back();
  } else {
    number = free_phases_.back();
    free_phases_.pop_back();
    replace_trail(phases_[number].trail, 0);
    phases_[number] = Phase{};
  }
  Phase& phase = phases_[number];
  phase.kind = kind;
  phase.open = phase.ending = static_cast<std::uint32_t>(groups_of(phase).parts());
  return number;
}

// Forget a collective that all have issued and whose chunks have ended.
void Machine::free_if_done(std::uint32_t number) {
  Collective& collective = collectives_[number];
  if (collective.open || collective.npus_left || collective.programs_left) return;
  Plan& plan = plans_[collective.plan];
  if (!plan.repeats) std::vector<Chunk>().swap(plan.chunks);
  collective.phases.clear();
  free_collectives_.push_back(number);
}

PartRecord* Machine::record_of(const ChunkRun& chunk) {
  const std::int32_t observed = npus_[chunk.npu].observed;
  return observed < 0 ? nullptr : &observed_[static_cast<std::size_t>(observed)].parts[chunk.record + chunk.part];
}

// Make the current part of a chunk ready.
void Machine::start_part(std::uint32_t number) {
  if (PartRecord* record = record_of(chunks_[number])) record->queued_at = now_;
  const std::int32_t queue = part_of(chunks_[number]).queue;
  if (queue < 0) return begin_part(number);
  enqueue(number, queue);
  pump(chunks_[number].npu, queue);
}

void Machine::begin_task(std::uint32_t npu, std::uint32_t number) {
  const Program& program = programs_[npus_[npu].program];
  const Task& task = program.task(number);
  const Time delay = program.delay(number);
  const std::uint32_t order = next_task_order(npu);
  if (task.kind == TaskKind::send || task.kind == TaskKind::receive) return begin_message(npu, number, order);
  Time end = after(delay);
  if (task.kind == TaskKind::access && !ports_.empty() && ports_[npu] >= 0) {
    Time& free_at = port_free_at_[static_cast<std::size_t>(ports_[npu])];
    if (__builtin_add_overflow(std::max(now_, free_at), delay, &end)) throw TooLong();
    free_at = end;
  }
  TrailTimes times;
  times.fill(-1);
  times[0] = now_;
  const std::uint32_t trail = trails_.make(times);
  push_task(end, trail, order, npu, kNone, number);
  trails_.drop(trail);
}

void Machine::begin_part(std::uint32_t number) {
  ChunkRun& chunk = chunks_[number];
  const Part& part = part_of(chunk);
  chunk.started = true;
  chunk.order = next_task_order(chunk.npu);
  if (PartRecord* record = record_of(chunk)) record->started_at = now_;
  if (part.phase < 0) {
    const Time end = after(part.delay);
    TrailTimes times;
    times.fill(-1);
    times[0] = now_;
    for (std::size_t place = 0; place < std::min(part.trail.size(), kTrailLength); ++place) times[place] = end - part.trail[place];
    const std::uint32_t trail = trails_.make(times);
    push_task(end, trail, chunk.order, chunk.npu, number, 0);
    trails_.drop(trail);
    return;
  }
  const std::uint32_t phase = phase_of(chunk);
  const std::int32_t place = groups_of(phases_[phase]).part_of[chunk.npu];
  if (place < 0) invalid("NPU " + std::to_string(chunk.npu) + " has no part in a phase that it runs");
  Rank& rank = rank_of(phase, static_cast<std::uint32_t>(place));
  if (rank.chunk != kNone) invalid("a phase that is a part of two chunks");
  rank.chunk = number;
  rank.order = chunk.order;
  for (std::int32_t start = rank.program->starts; start > 0; --start) handle(phase, static_cast<std::uint32_t>(place), rank, -1);
  advance(phase, static_cast<std::uint32_t>(place), rank);
}

void Machine::end_task(std::uint32_t npu, std::uint32_t task) {
  state_of(npu, task).state = ended;
  npus_[npu].ended_at = now_;
  const std::int8_t unit = programs_[npus_[npu].program].task(task).unit;
  if (unit >= 0) units_[npus_[npu].units].busy &= ~(1u << unit);
  if (npus_[npu].observed >= 0) observed_[static_cast<std::size_t>(npus_[npu].observed)].ended[task] = now_;
}

void Machine::finish_task(std::uint32_t npu, std::uint32_t task) {
  end_task(npu, task);
  const Program& program = programs_[npus_[npu].program];
  for (std::uint32_t next = program.first_successor[task]; next != program.first_successor[task + 1]; ++next) {
    if (!release(npu, program.successors[next])) continue;
    if (program.has_units) {
      add_ready(units_[npus_[npu].units], npu, program.successors[next]);
    } else {
      start(npu, program.successors[next]);
    }
  }
  if (program.has_units) pump_units(npu);
}

void Machine::finish_part(std::uint32_t number) {
  ChunkRun& chunk = chunks_[number];
  const std::uint32_t npu = chunk.npu;
  const Part& part = part_of(chunk);
  const std::int32_t queue = part.queue;
  PartRecord* record = record_of(chunk);
  if (record) record->ended_at = now_;
  if (part.phase >= 0) {
    const std::uint32_t happening = phase_of(chunk);
    Phase& phase = phases_[happening];
    const auto place = static_cast<std::size_t>(groups_of(phase).part_of[npu]);
    if (record) {
      record->delay_sum = phase.ranks[place].delay_sum;
      record->received = phase.ranks[place].received;
    }
    replace_trail(phase.ranks[place].last_trail, 0);
    if (--phase.ending == 0) {
      phase.ended = true;
      phase.ranks.reset();
      free_phases_.push_back(happening);
    }
  }
  if (queue >= 0) queue_of(queue).leave(npu, number);
  chunk.started = false;
  std::int32_t entered = -1;
  if (chunk.part + 1 == plans_[collectives_[chunk.collective].plan].chunks[chunk.chunk].size()) {
    end_chunk(number);
  } else {
    ++chunk.part;
    entered = part_of(chunk).queue;
    if (record) record[1].queued_at = now_;
    if (entered < 0) {
      begin_part(number);
    } else {
      enqueue(number, entered);
    }
  }
  if (queue >= 0) pump(npu, queue);
  if (entered >= 0) pump(npu, entered);
}

void Machine::end_chunk(std::uint32_t number) {
  ChunkRun& chunk = chunks_[number];
  chunk.used = false;
  free_chunks_.push_back(number);
  --collectives_[chunk.collective].open;
  free_if_done(chunk.collective);
  if (--state_of(chunk.npu, chunk.task).left == 0) begin_task(chunk.npu, chunk.task);
}

void Machine::enqueue(std::uint32_t number, std::int32_t queue) {
  const ChunkRun& chunk = chunks_[number];
  const Part& part = part_of(chunk);
  const Job job{part.job.sort, part.job.priority + part.age * collectives_[chunk.collective].number};
  queue_of(queue).enter(*host_, chunk.npu, number, job);
}

// Start the chunks that have a slot.
void Machine::pump(std::uint32_t npu, std::int32_t queue) {
  Queue& own = queue_of(queue);
  for (std::uint32_t chunk = own.start(npu); chunk != Queue::kNone; chunk = own.start(npu)) begin_part(chunk);
}

// -- events -----------------------------------------------------------------------------------------------------------

Time Machine::after(Time delay) const {
  Time time;
  if (__builtin_add_overflow(now_, delay, &time)) throw TooLong();
  return time;
}

void Machine::replace_trail(std::uint32_t& place, std::uint32_t trail) {
  trails_.hold(trail);
  trails_.drop(place);
  place = trail;
}

// The trail of what is scheduled now.
std::uint32_t Machine::next_trail() {
  if (next_of_ != trail_ || next_at_ != now_) {
    const std::uint32_t made = trails_.prepend(now_, trail_);
    if (next_of_ != kNone) trails_.drop(next_of_);
    trails_.drop(next_trail_);
    trails_.hold(trail_);
    next_of_ = trail_;
    next_at_ = now_;
    next_trail_ = made;
  }
  return next_trail_;
}

// The trail of what is scheduled now and again at `via`.
std::uint32_t Machine::trail_via(Time via) {
  const std::uint32_t next = next_trail();
  if (via_of_ != next || via_at_ != via) {
    const std::uint32_t made = trails_.prepend(via, next);
    if (via_of_ != kNone) trails_.drop(via_of_);
    trails_.drop(via_trail_);
    trails_.hold(next);
    via_of_ = next;
    via_at_ = via;
    via_trail_ = made;
  }
  return via_trail_;
}

// Let something happen that `npu` schedules, now or (`via`) at a time to come before it happens.
void Machine::push(Time time, Kind kind, std::uint32_t npu, std::uint32_t phase, std::uint32_t part, std::uint32_t slot, Time via) {
  if (via < 0) {
    const std::uint32_t trail = next_trail();
    return push_event(time, kind, npu, phase, part, slot, trail, trail);
  }
  const std::uint32_t trail = trail_via(via);
  // What comes via the very instant in which it happens joins what is scheduled for that already.
  push_event(time, kind, npu, phase, part, slot, trail, via == time ? next_trail_ : trail);
}

// Which event of an NPU this is; where NPUs wait for each other, of all NPUs: there it matters who comes first.
std::uint32_t Machine::next_order(std::uint32_t npu) { return ++(contended_ ? order_ : npus_[npu].order); }

std::uint32_t Machine::next_task_order(std::uint32_t npu) {
  return ++(contended_ ? task_order_ : npus_[npu].task_order);
}

void Machine::push_event(Time time, Kind kind, std::uint32_t npu, std::uint32_t phase, std::uint32_t part, std::uint32_t slot,
                         std::uint32_t trail, std::uint32_t key) {
  std::int64_t stage = 0;
  if (time == now_) stage = stage_ & kTasks ? stage_ - kTasks + kRound : stage_ + 1;  // a level after what happens now
  trails_.hold(trail);
  trails_.hold(key);
  queue_.push(time, stage, {key, kind, next_order(npu), npu, phase, part, slot, trail});
}

// Let a task end: in this instant, after all messages and credits, and a round after the tasks that end now.
void Machine::push_task(Time time, std::uint32_t trail, std::uint32_t order, std::uint32_t npu, std::uint32_t chunk, std::uint32_t task) {
  std::int64_t stage = kTasks;
  if (time == now_) stage += stage_ / kRound * kRound + (stage_ & kTasks ? kRound : 0);
  trails_.hold(trail);
  trails_.hold(0);
  const std::uint32_t phase = chunk == kNone ? kNone : 0;
  queue_.push(time, stage, {trail, 0, order, npu, phase, chunk, task, 0});
}

// -- messages ---------------------------------------------------------------------------------------------------------

Machine::Rank& Machine::rank_of(std::uint32_t number, std::uint32_t part) {
  Phase& phase = phases_[number];
  if (!phase.ranks) {
    if (phase.ended) throw std::logic_error("something happens to a phase that has ended");
    const Schedule& schedule = *schedules_[kind_of(phase).schedule];
    const Groups& groups = groups_[schedule.groups];
    phase.ranks = std::make_unique<Rank[]>(groups.parts());
    for (std::size_t place = 0; place < groups.parts(); ++place) {
      Rank& rank = phase.ranks[place];
      rank.npu = static_cast<std::uint32_t>(groups.members[place]);
      rank.rank = static_cast<std::int32_t>(place % static_cast<std::size_t>(groups.size));
      rank.program = &schedule.programs[schedule.programs.size() == 1 ? 0 : static_cast<std::size_t>(rank.rank)];
      trails_.hold(0);
    }
  }
  return phase.ranks[part];
}

// A rank has handled a message, or a start.
void Machine::on_credit(std::uint32_t phase, std::uint32_t part) {
  Rank& rank = rank_of(phase, part);
  if (rank.credited_at != now_ || trails_.less(rank.last_trail, trail_)) replace_trail(rank.last_trail, trail_);
  rank.credited_at = now_;
  ++rank.credits;
  advance(phase, part, rank);
}

// Take every step that the credits of a rank allow.
void Machine::advance(std::uint32_t phase, std::uint32_t part, Rank& rank) {
  const RankProgram& program = *rank.program;
  const auto count = static_cast<std::int32_t>(program.actions.size());
  while (rank.next_action < count) {
    const Action& action = program.actions[static_cast<std::size_t>(rank.next_action)];
    if (rank.credits < action.after || static_cast<std::int32_t>(rank.received) < action.after_arrivals) return;
    ++rank.next_action;
    if (action.to.kind != PeerKind::none) send(phase, part, rank, action);
    if (action.from.kind != PeerKind::none) post(phase, part, rank, action);
  }
  if (rank.credits == program.credits) finish_phase(phase, rank);
}

void Machine::send(std::uint32_t number, std::uint32_t part, const Rank& rank, const Action& action) {
  Phase& phase = phases_[number];
  const Groups& groups = groups_of(phase);
  const std::uint32_t peer = part - static_cast<std::uint32_t>(rank.rank) + static_cast<std::uint32_t>(action.to.of(rank.rank, groups.size));
  const std::int32_t destination = groups.members[peer];
  const std::uint32_t target = groups.loop_back ? part : peer;
  const auto slot = static_cast<std::uint32_t>(action.slot);
  const auto source = static_cast<std::int32_t>(rank.npu);
  if (options_.rendezvous) {
    Slot& state = rank_of(number, target).window.at(slot);
    state.state |= kOffered;
    phase.offers.emplace(pair_key(target, slot), Offer{source, destination, action.bytes, action.delay});
    // A request that is there already counts when it is looked for.
    if (state.state & kGranted) push(now_, request, rank.npu, number, target, slot);
    return;
  }
  transmit(source, destination, action.bytes, action.delay, arrival, number, target, slot);
}

void Machine::post(std::uint32_t number, std::uint32_t part, Rank& rank, const Action& action) {
  const auto slot = static_cast<std::uint32_t>(action.receive_slot);
  Slot& state = rank.window.at(slot);
  state.posted_at = now_;
  // A message that is there already is met by an event of its own.
  if (state.state & kArrived) return push(now_, meeting, rank.npu, number, part, slot);
  state.state |= kPosted;
  if (options_.rendezvous) {
    const Groups& groups = groups_of(phases_[number]);
    const std::uint32_t peer =
        part - static_cast<std::uint32_t>(rank.rank) + static_cast<std::uint32_t>(action.from.of(rank.rank, groups.size));
    transmit(static_cast<std::int32_t>(rank.npu), groups.members[peer], kControlBytes, action.request_delay, request, number, part, slot);
  }
}

// The request for a message has reached its sender, who sends it as soon as it has it.
void Machine::on_request(std::uint32_t number, std::uint32_t part, std::uint32_t slot) {
  Slot& state = rank_of(number, part).window.at(slot);
  state.state |= kGranted;
  if (!(state.state & kOffered)) return;
  Phase& phase = phases_[number];
  const auto found = phase.offers.find(pair_key(part, slot));
  const Offer offer = found->second;
  phase.offers.erase(found);
  transmit(offer.source, offer.destination, offer.bytes, offer.delay, arrival, number, part, slot);
}

void Machine::on_arrival(std::uint32_t phase, std::uint32_t part, std::uint32_t slot) {
  Rank& rank = rank_of(phase, part);
  Slot& state = rank.window.at(slot);
  if (state.state & kPosted) return receive(phase, part, rank, slot, state);
  state.state |= kArrived;
}

void Machine::on_meeting(std::uint32_t phase, std::uint32_t part, std::uint32_t slot) {
  Rank& rank = rank_of(phase, part);
  receive(phase, part, rank, slot, rank.window.at(slot));
}

// A message has met its receive: the endpoint makes a credit of it.
void Machine::receive(std::uint32_t phase, std::uint32_t part, Rank& rank, std::uint32_t slot, Slot& state) {
  rank.delay_sum += now_ - state.posted_at;
  ++rank.received;
  rank.window.done(slot);
  handle(phase, part, rank, static_cast<std::int32_t>(slot));
}

// The endpoint makes a credit of a message; of a start, where `slot` is negative.
void Machine::handle(std::uint32_t phase, std::uint32_t part, Rank& rank, std::int32_t slot) {
  const std::size_t place = rank.program->in_turn ? rank.received - std::size_t{1} : static_cast<std::size_t>(slot);
  const Time memory = slot >= 0 ? rank.program->memory_ps[place] : -1;
  if (options_.bus) {
    const Carriage& carriage = rank.program->carriages[static_cast<std::size_t>(rank.handled++)];
    return bus_of(rank.npu).carry(carriage.to_npu, carriage.bytes, memory >= 0, carriage.returned, {phase, part, memory});
  }
  const Time done = after(kind_of(phases_[phase]).endpoint_ps);
  if (memory < 0) return push(done, credit, rank.npu, phase, part, 0);
  // The pass through memory is scheduled when the endpoint is done.
  Time end;
  if (__builtin_add_overflow(done, memory, &end)) throw TooLong();
  push(end, credit, rank.npu, phase, part, 0, done);
}

// Put a message on the network; at its arrival the event `kind` happens to a receive.
void Machine::transmit(std::int32_t source, std::int32_t destination, std::int64_t bytes, Time delay, Kind kind, std::uint32_t phase,
                       std::uint32_t part, std::uint32_t slot) {
  ++messages_;
  if (options_.network == NetworkKind::delays) {
    if (delay == kUnknown) delay = delay_of(source, destination, bytes);
    return push(after(delay), kind, static_cast<std::uint32_t>(source), phase, part, slot);
  }
  outbox_.push_back({messages_, bytes, source, destination, kind_of(phases_[phase]).queue, 0});
  const std::uint32_t trail = next_trail();
  trails_.hold(trail);
  under_way_.emplace(messages_, UnderWay{kind, static_cast<std::uint32_t>(source), phase, part, slot, trail});
}

// -- messages between tasks -------------------------------------------------------------------------------------------

std::int32_t Machine::peer_of(std::uint32_t npu, const Task& task) const {
  return task.peer.kind == PeerKind::none ? static_cast<std::int32_t>(npu)
                                          : task.peer.of(static_cast<std::int32_t>(npu), static_cast<std::int32_t>(npus_.size()));
}

std::uint32_t Machine::mailbox_of(std::int32_t source, std::int32_t destination, const Task& task) {
  const auto [place, added] =
      mailbox_numbers_.try_emplace({source, destination, task.tag, task.bytes}, static_cast<std::uint32_t>(mailboxes_.size()));
  if (added) mailboxes_.emplace_back();
  return place->second;
}

void Machine::begin_message(std::uint32_t npu, std::uint32_t number, std::uint32_t order) {
  const Task& task = programs_[npus_[npu].program].task(number);
  const auto own = static_cast<std::int32_t>(npu);
  const std::int32_t peer = peer_of(npu, task);
  const Waiting waiting{npu, number};
  if (task.kind == TaskKind::send) {
    if (npus_[npu].observed >= 0) observed_[static_cast<std::size_t>(npus_[npu].observed)].sends.emplace_back(number, now_);
    const std::uint32_t place = mailbox_of(own, peer, task);
    Mailbox& mailbox = mailboxes_[place];
    if (!options_.rendezvous) return send_letter(place, waiting);
    mailbox.offered.push_back(waiting);
    if (mailbox.requests > 0) {
      --mailbox.requests;
      push(now_, letter_request, npu, place, number, 0);
    }
    return;
  }
  const std::uint32_t place = mailbox_of(peer, own, task);
  Mailbox& mailbox = mailboxes_[place];
  if (mailbox.arrived > 0) {
    --mailbox.arrived;
    TrailTimes times;
    times.fill(-1);
    times[0] = now_;
    const std::uint32_t trail = trails_.make(times);
    push_task(now_, trail, order, npu, kNone, number);
    trails_.drop(trail);
  } else {
    mailbox.posted.push_back(waiting);
  }
  if (options_.rendezvous) post_letter(own, peer, kControlBytes, letter_request, place, waiting);
}

void Machine::send_letter(std::uint32_t mailbox, const Waiting& sender) {
  const Task& task = programs_[npus_[sender.npu].program].task(sender.task);
  post_letter(static_cast<std::int32_t>(sender.npu), peer_of(sender.npu, task), task.bytes, letter, mailbox, sender);
}

void Machine::post_letter(std::int32_t source, std::int32_t destination, std::int64_t bytes, Kind kind, std::uint32_t mailbox,
                          const Waiting& sender) {
  ++messages_;
  if (options_.network == NetworkKind::delays) {
    return push(after(delay_of(source, destination, bytes)), kind, static_cast<std::uint32_t>(source), mailbox, sender.task, 0);
  }
  outbox_.push_back({messages_, bytes, source, destination, -1, 0});
  const std::uint32_t trail = next_trail();
  trails_.hold(trail);
  under_way_.emplace(messages_, UnderWay{kind, static_cast<std::uint32_t>(source), mailbox, sender.task, 0, trail});
}

// The request of a receive has reached the sender.
void Machine::on_letter_request(std::uint32_t number) {
  Mailbox& mailbox = mailboxes_[number];
  if (mailbox.offered.empty()) {
    ++mailbox.requests;
    return;
  }
  const Waiting sender = mailbox.offered.front();
  mailbox.offered.pop_front();
  send_letter(number, sender);
}

// The message of a send has arrived: the send ends, and so does the receive that waits for it.
void Machine::on_letter(std::uint32_t number, const Waiting& sender) {
  Mailbox& mailbox = mailboxes_[number];
  end_letter(sender);
  if (mailbox.posted.empty()) {
    ++mailbox.arrived;
    return;
  }
  const Waiting receiver = mailbox.posted.front();
  mailbox.posted.pop_front();
  end_letter(receiver);
}

void Machine::end_letter(const Waiting& task) { push_task(now_, trail_, next_task_order(task.npu), task.npu, kNone, task.task); }

std::size_t Machine::HashKey::operator()(const MailboxKey& key) const {
  std::uint64_t hash = pair_key(static_cast<std::uint32_t>(key.source), static_cast<std::uint32_t>(key.destination));
  hash = (hash ^ static_cast<std::uint32_t>(key.tag)) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 32 ^ static_cast<std::uint64_t>(key.bytes)) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

Time Machine::delay_of(std::int32_t source, std::int32_t destination, std::int64_t bytes) {
  if (table_) {
    const Time delay = table_->delay(source, destination, bytes);
    if (delay >= 0) return delay;
    host_->delay(source, destination, bytes);  // where the network says in Python what is wrong
    table_->fail("delay");
  }
  auto& known = delays_[pair_key(static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(destination))];
  for (const auto& [size, delay] : known) {
    if (size == bytes) return delay;
  }
  const Time delay = host_->delay(source, destination, bytes);
  known.emplace_back(bytes, delay);
  return delay;
}

// Hand new messages to the network, and take all that arrive before anything else happens.
void Machine::exchange() {
  if (!outbox_.empty()) {
    if (table_) {
      table_->inject(now_, outbox_);
    } else {
      host_->inject(now_, outbox_);
    }
    outbox_.clear();
    quiet_until_ = -1;
  }
  Time since = now_;  // deliveries come in order of time
  while (quiet_until_ != ASTRA_NEVER) {
    const Time until = queue_.empty() ? ASTRA_NEVER : queue_.time();
    if (until <= quiet_until_) return;
    Time time = 0;
    if (!next_delivery(since, until, time)) {
      quiet_until_ = until;
      return;
    }
    since = time;
    for (const std::uint64_t number : delivered_) {
      const auto found = under_way_.find(number);
      if (found == under_way_.end()) throw NotUnderWay(number);
      const UnderWay message = found->second;
      under_way_.erase(found);
      push_event(time, static_cast<Kind>(message.kind), message.source, message.phase, message.part, message.slot, message.trail, message.trail);
      trails_.drop(message.trail);
    }
  }
}

// The next delivery between two times, in delivered_; false where there is none.
bool Machine::next_delivery(Time since, Time until, Time& time) {
  delivered_.clear();
  return table_ ? table_->advance(since, until, time, delivered_) : host_->advance(since, until, time, delivered_);
}

// A rank has finished its part of a phase.
void Machine::finish_phase(std::uint32_t number, const Rank& rank) {
  Phase& phase = phases_[number];
  std::uint32_t trail = rank.last_trail;
  trails_.hold(trail);
  if (rank.credited_at != now_) {
    TrailTimes times;
    times.fill(-1);
    times[0] = now_;
    trails_.drop(trail);
    trail = trails_.make(times);
  }
  --phase.open;
  if (!kind_of(phase).together) {
    push_task(now_, trail, next_task_order(rank.npu), rank.npu, rank.chunk, 0);
  } else {
    if (phase.ended_at != now_ || trails_.less(phase.trail, trail)) replace_trail(phase.trail, trail);
    phase.ended_at = now_;
    if (phase.open == 0) {
      replace_trail(phase_kinds_[phase.kind].trail, phase.trail);
      const std::size_t parts = groups_of(phase).parts();
      for (std::size_t place = 0; place < parts; ++place) {
        const Rank& each = phase.ranks[place];
        push_task(now_, phase.trail, each.order, each.npu, each.chunk, 0);
      }
    }
  }
  trails_.drop(trail);
}

// -- the bus ----------------------------------------------------------------------------------------------------------

SharedBus& Machine::bus_of(std::uint32_t npu) {
  if (!buses_[npu]) buses_[npu] = std::make_unique<SharedBus>(*options_.bus, static_cast<BusHost&>(*this), npu);
  return *buses_[npu];
}

void Machine::after(std::int64_t nanoseconds, std::uint32_t npu, std::uint32_t call) {
  std::int64_t delay;
  if (__builtin_mul_overflow(nanoseconds, kPsPerNs, &delay)) throw TooLong();
  push(after(delay), called, npu, 0, 0, call);
}

void Machine::carried(std::uint32_t npu, const Carried& done) {
  if (done.memory_ps < 0) return on_credit(done.phase, done.part);
  push(after(done.memory_ps), credit, npu, done.phase, done.part, 0);
}

}  // namespace astra
