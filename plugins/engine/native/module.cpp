// The Python module astra_sim_engine._compiled: the engine as the class Machine. astra_sim_engine/machine.py wraps it.
//
// Here numbers are checked that come from Python, and put into the records of interface.hpp and schedule.hpp; behind this the engine relies
// on their ranges. Numbers that come in columns or rows get their names here.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "errors.hpp"
#include "machine.hpp"
#include "spans.hpp"

namespace nb = nanobind;
namespace engine = astra::engine;
using namespace nb::literals;

namespace {

using engine::invalid;
using engine::narrow;
using engine::Time;
using Numbers = std::vector<std::int64_t>;

std::int32_t small(std::int64_t number) {
  if (number < INT32_MIN || number > INT32_MAX) invalid(std::to_string(number) + " does not fit 32 bits");
  return narrow<std::int32_t>(number);
}

// A number that counts or names something.
std::uint32_t count(std::int64_t number, const char* what) {
  if (number < 0 || number >= UINT32_MAX) invalid(std::string(what) + " " + std::to_string(number));
  return narrow<std::uint32_t>(number);
}

engine::Peer peer(std::int64_t kind, std::int64_t value) {
  if (kind < 0 || kind > 3) invalid("a peer of no kind");
  return {static_cast<engine::PeerKind>(kind), narrow<std::uint32_t>(small(value))};
}

// A column of numbers, in the byte order of the machine.
template <typename Number>
std::vector<Number> column(const nb::bytes& data) {
  if (data.size() % sizeof(Number)) invalid("a broken column");
  std::vector<Number> numbers(data.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), data.c_str(), data.size());
  return numbers;
}

template <typename Number>
nb::bytes bytes_of(const std::vector<Number>& numbers) {
  return nb::bytes(numbers.data(), numbers.size() * sizeof(Number));
}

// A column of one field of records.
template <typename Record, typename Field>
nb::bytes column_of(const std::vector<Record>& records, Field field) {
  std::vector<Time> numbers;
  numbers.reserve(records.size());
  for (const Record& record : records) numbers.push_back(field(record));
  return bytes_of(numbers);
}

struct PeerRow {
  std::int64_t kind, value, stride;

  // The peer of a repetition: distances are modulo the ranks of a group.
  engine::Peer record(std::int64_t repetition, std::int64_t ranks) const {
    const std::int64_t moved = value + repetition * stride;
    return peer(kind, kind == static_cast<std::int64_t>(engine::PeerKind::shift) ? (moved % ranks + ranks) % ranks : moved);
  }
};

// Actions one after another, of which the first is said: the receipts of each are one higher.
struct ActionRow {
  std::int64_t times, after, after_grows, after_arrivals;
  PeerRow to, from;
  std::int64_t receipt, own_receipt, bytes, after_ps, reduced;

  engine::Action record(std::int64_t repetition, std::int64_t ranks) const {
    // A receipt of -1 is none, for nothing is sent.
    const std::int64_t met = receipt < 0 ? receipt : receipt + repetition;
    return {small(after + repetition * after_grows),
            small(after_arrivals),
            to.record(repetition, ranks),
            narrow<engine::ReceiptId>(small(met)),
            from.record(repetition, ranks),
            narrow<engine::ReceiptId>(small(own_receipt + repetition)),
            bytes,
            engine::kUnknown,
            engine::kUnknown};
  }

  void add_to(engine::LoweredProgram& program, std::int64_t ranks) const {
    for (std::int64_t repetition = 0; repetition < times; ++repetition) {
      program.actions.push_back(record(repetition, ranks));
      if (!from.kind) continue;
      program.after_ps.push_back(after_ps);
      program.reduced.push_back(reduced != 0);
    }
  }
};

struct BusTransferRow {
  std::int64_t bytes, to_npu, returned;

  engine::BusTransfer record() const { return {bytes, to_npu != 0, returned != 0}; }
};

// Columns of the kinds of tasks, in the order in which they come.
struct TaskFields {
  Numbers kind, delay, unit, bytes, tag, group, collective, repeats, peer_kind, peer_value;

  explicit TaskFields(const std::vector<nb::bytes>& columns) {
    Numbers* const fields[] = {&kind, &delay, &unit, &bytes, &tag, &group, &collective, &repeats, &peer_kind, &peer_value};
    if (columns.empty()) return;  // a program without tasks
    if (columns.size() != std::size(fields)) invalid("a program with broken columns");
    for (std::size_t place = 0; place < columns.size(); ++place) {
      *fields[place] = column<std::int64_t>(columns[place]);
      if (fields[place]->size() != kind.size()) invalid("a program with broken columns");
    }
  }

  engine::Task record(std::size_t row) const {
    if (kind[row] < 0 || kind[row] > 6) invalid("a task is of no kind");
    if (unit[row] < -1 || unit[row] >= std::int64_t{engine::kUnits}) invalid("a task needs a unit that is none");
    return {.kind = static_cast<engine::TaskKind>(kind[row]),
            .unit = narrow<std::int8_t>(unit[row]),
            .repeats = repeats[row] != 0,
            .delay = delay[row],
            .peer = peer(peer_kind[row], peer_value[row]),
            .tag = small(tag[row]),
            .bytes = bytes[row],
            .group = small(group[row]),
            .collective = small(collective[row])};
  }

  std::vector<engine::Task> records() const {
    std::vector<engine::Task> tasks;
    tasks.reserve(kind.size());
    for (std::size_t row = 0; row < kind.size(); ++row) tasks.push_back(record(row));
    return tasks;
  }
};

// The jobs of a queue, to be looked at while its order is asked.
struct Jobs {
  const std::deque<engine::Job>* jobs;

  const std::deque<engine::Job>& own() const {
    if (!jobs) invalid("the jobs of a queue can be looked at while its order is asked, not later");
    return *jobs;
  }
};

// The Python functions of one run.
struct Functions {
  nb::callable issue, standing, place, compute, overhead, delay, inject, advance;
};

// Calls them with the interpreter lock.
class Callbacks : public engine::Host {
 public:
  void set(Functions functions) { functions_ = std::move(functions); }

  std::vector<engine::Chunk> issue(engine::ProgramId program, std::uint32_t task, Time now) override {
    nb::gil_scoped_acquire lock;
    using StepOf = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, Numbers>;
    const auto arguments = nb::cast<std::vector<std::vector<StepOf>>>(functions_.issue(program, task, now));
    std::vector<engine::Chunk> chunks;
    for (const auto& steps : arguments) {
      engine::Chunk& chunk = chunks.emplace_back();
      for (const auto& [job_class, priority, age, queue, phase, delay, causal_key] : steps) {
        chunk.push_back({{count(job_class, "job"), priority}, age, small(queue), small(phase), delay, causal_key});
      }
    }
    return chunks;
  }

  engine::Standing standing(engine::QueueId queue, engine::JobClass job_class) override {
    nb::gil_scoped_acquire lock;
    using StandingOf = std::tuple<std::int64_t, Numbers, std::vector<std::uint8_t>>;
    const auto [rule, keys, sides] = nb::cast<StandingOf>(functions_.standing(queue, job_class));
    if (keys.size() != sides.size()) invalid("a standing with broken columns");
    engine::Standing standing{count(rule, "rule"), {}};
    for (std::size_t place = 0; place < keys.size(); ++place) standing.marks.push_back({keys[place], sides[place]});
    return standing;
  }

  std::uint32_t place(engine::QueueId queue, const std::deque<engine::Job>& jobs, std::uint32_t running, const engine::Job& job) override {
    nb::gil_scoped_acquire lock;
    const nb::object shown = nb::cast(Jobs{&jobs});
    struct Hide {
      Jobs& jobs;
      ~Hide() { jobs.jobs = nullptr; }
    } hide{nb::cast<Jobs&>(shown)};
    return nb::cast<std::uint32_t>(functions_.place(queue, shown, running, std::make_pair(job.job_class, job.priority)));
  }

  Time compute(engine::NpuId npu, std::uint32_t task, Time now) override {
    nb::gil_scoped_acquire lock;
    return nb::cast<Time>(functions_.compute(npu, task, now));
  }

  Time overhead(std::int64_t bytes, bool receives) override {
    nb::gil_scoped_acquire lock;
    return nb::cast<Time>(functions_.overhead(bytes, receives));
  }

  Time delay(engine::NpuId source, engine::NpuId destination, std::int64_t bytes) override {
    nb::gil_scoped_acquire lock;
    return nb::cast<Time>(functions_.delay(source, destination, bytes));
  }

  void inject(Time now, std::span<const astra_message_v2> messages) override {
    nb::gil_scoped_acquire lock;
    nb::list arguments;
    for (const astra_message_v2& message : messages) {
      arguments.append(nb::make_tuple(message.number, message.source, message.destination, message.bytes, message.queue, message.flow,
                                      message.traffic_class));
    }
    functions_.inject(now, arguments);
  }

  bool advance(Time now, Time until, Time& time, std::vector<astra_delivery>& deliveries) override {
    nb::gil_scoped_acquire lock;
    using Told = std::tuple<Time, std::vector<std::uint64_t>, std::vector<std::uint64_t>>;
    const nb::object limit = until == ASTRA_NEVER ? nb::none() : nb::object(nb::int_(until));
    const auto reported = nb::cast<std::optional<Told>>(functions_.advance(now, limit));
    if (!reported) return false;
    time = std::get<0>(*reported);
    deliveries.clear();
    for (const std::uint64_t number : std::get<1>(*reported)) deliveries.push_back({number, ASTRA_ARRIVED, 0});
    for (const std::uint64_t number : std::get<2>(*reported)) deliveries.push_back({number, ASTRA_SENT, 0});
    return true;
  }

 private:
  Functions functions_;
};

// The function table of a version in a capsule.
template <typename Table>
engine::NetworkTable table_of(const nb::capsule& capsule, const char* name, std::uint32_t version) {
  const auto* table = static_cast<const Table*>(capsule.data(name));
  if (!table) nb::raise_python_error();
  if (table->version != version || table->size < sizeof(Table)) {
    invalid("the network function table has version " + std::to_string(table->version) + "; expected " + std::to_string(version));
  }
  return engine::NetworkTable(table);
}

// The fields of engine::BusOptions, in order.
using BusOf = std::tuple<std::int64_t, std::int64_t, std::int64_t, double, std::int64_t, double, std::int64_t, std::int64_t>;

// A machine that one thread at a time may use. While it runs only its own callbacks may.
class Machine {
 public:
  Machine(std::int64_t npus, bool events, std::int64_t endpoint_ps, bool rendezvous, const std::optional<BusOf>& bus,
          bool reports_completion) {
    engine::Options options;
    options.npus = count(npus, "NPUs:");
    options.network = events ? engine::NetworkKind::events : engine::NetworkKind::delays;
    options.endpoint_ps = endpoint_ps;
    options.rendezvous = rendezvous;
    options.reports_completion = reports_completion;
    if (bus) {
      options.bus = std::make_unique<engine::BusOptions>(std::make_from_tuple<engine::BusOptions>(*bus));
    }
    machine_ = std::make_unique<engine::Machine>(std::move(options), callbacks_);
  }

  engine::Machine& own() {
    if (running_ && std::this_thread::get_id() != runner_) invalid("the engine is running in another thread");
    return *machine_;
  }

  void set_table(const nb::capsule& capsule) {
    own().set_table(PyCapsule_IsValid(capsule.ptr(), ASTRA_NETWORK_CAPSULE_V2)
                        ? table_of<astra_network_v2>(capsule, ASTRA_NETWORK_CAPSULE_V2, ASTRA_NETWORK_VERSION_2)
                        : table_of<astra_network>(capsule, ASTRA_NETWORK_CAPSULE, ASTRA_NETWORK_VERSION));
    capsule_ = capsule;
  }

  // The slots of each queue, and the rules of its order: whether by priority, whether before equal ones, whether kinds take turns.
  void add_queues(const std::vector<std::tuple<std::int64_t, std::vector<std::tuple<bool, bool, bool>>>>& arguments) {
    std::vector<engine::QueuePlan> plans;
    for (const auto& [slots, rules] : arguments) {
      engine::QueuePlan& plan = plans.emplace_back(engine::QueuePlan{slots, {}});
      for (const auto& [by_priority, before_equal, in_turn] : rules) plan.rules.push_back({by_priority, before_equal, in_turn});
    }
    own().add_queues(plans);
  }

  void set_traffic_classes(std::int32_t without_queue, std::vector<std::int32_t> of_queues) {
    own().set_traffic_classes(without_queue, std::move(of_queues));
  }

  // The kinds of tasks, and the columns of astra_sim.rows.Rows.
  void add_program(const std::vector<nb::bytes>& fields, const nb::bytes& kind_of, const nb::bytes& times, const nb::bytes& priorities,
                   const nb::bytes& after_end, const nb::bytes& after, const Numbers& npus, std::int64_t agreement) {
    own().add_program({.kinds = TaskFields(fields).records(),
                       .kind_of = column<std::uint32_t>(kind_of),
                       .times = column<Time>(times),
                       .priorities = column<std::uint32_t>(priorities),
                       .after_end = column<std::uint64_t>(after_end),
                       .after = column<std::uint32_t>(after)},
                      npus, agreement);
  }

  engine::GroupsId add_groups(const Numbers& members, std::int64_t size, bool loop_back) {
    std::vector<engine::NpuId> npus;
    npus.reserve(members.size());
    for (const std::int64_t member : members) npus.push_back(count(member, "a group with NPU"));
    return own().add_groups(std::move(npus), count(size, "a group of size"), loop_back);
  }

  // Of each program: starts, rows of actions, for each action the delay of its message and of its request (or nothing), rows of bus
  // transfers, whether messages are charged in turn.
  using ProgramOf = std::tuple<std::int64_t, nb::bytes, nb::bytes, nb::bytes, nb::bytes, bool>;

  engine::ScheduleId add_schedule(const std::vector<ProgramOf>& arguments, const Numbers& program_of, std::int64_t groups,
                                  std::int64_t ranks) {
    if (ranks < 1) invalid("a schedule of no ranks");
    std::vector<engine::LoweredProgram> programs;
    for (const auto& [starts, actions, delays, request_delays, bus_transfers, in_turn] : arguments) {
      engine::LoweredProgram& program = programs.emplace_back();
      program.starts = small(starts);
      program.in_turn = in_turn;
      const auto rows = column<ActionRow>(actions);
      std::int64_t number = 0;
      for (const ActionRow& row : rows) number += row.times;
      program.actions.reserve(narrow<std::size_t>(count(number, "actions")));
      for (const ActionRow& row : rows) row.add_to(program, ranks);
      program.tokens = small(starts + narrow<std::int64_t>(program.after_ps.size()));
      set_delays(program, delays, &engine::Action::delay);
      set_delays(program, request_delays, &engine::Action::request_delay);
      for (const BusTransferRow& row : column<BusTransferRow>(bus_transfers)) program.bus_transfers.push_back(row.record());
    }
    std::vector<std::uint32_t> places;
    places.reserve(program_of.size());
    for (const std::int64_t place : program_of) places.push_back(count(place, "program"));
    return own().add_schedule({std::move(programs), std::move(places)}, count(groups, "groups"));
  }

  engine::PhaseKindId add_phase(std::int64_t schedule, std::int64_t queue, bool together, std::int64_t endpoint_ps, bool barrier) {
    return own().add_phase(count(schedule, "schedule"), small(queue), together, endpoint_ps, barrier);
  }

  // Delays of all actions of a program, or none.
  static void set_delays(engine::LoweredProgram& program, const nb::bytes& arguments, Time engine::Action::* delay) {
    const auto delays = column<Time>(arguments);
    if (delays.empty()) return;
    if (delays.size() != program.actions.size()) invalid("a program with delays for another number of actions");
    for (std::size_t place = 0; place < delays.size(); ++place) program.actions[place].*delay = delays[place];
  }

  nb::tuple times(std::int64_t npu) {
    const engine::TaskTimes& times = own().record().times(count(npu, "NPU"));
    return nb::make_tuple(bytes_of(times.ready), bytes_of(times.ended));
  }

  nb::tuple sends(std::int64_t npu) {
    const std::vector<engine::SendRecord> sends = own().record().sends(count(npu, "NPU"));
    return nb::make_tuple(column_of(sends, [](const engine::SendRecord& send) { return send.task; }),
                          column_of(sends, [](const engine::SendRecord& send) { return send.began_at; }));
  }

  // Columns in the order of astra_sim.engine.PhaseStepRecord.
  nb::list phase_steps(std::int64_t npu) {
    using Record = engine::PhaseStepRecord;
    const std::vector<Record> records = own().record().phase_steps(count(npu, "NPU"));
    nb::list columns;
    columns.append(column_of(records, [](const Record& record) { return record.task; }));
    columns.append(column_of(records, [](const Record& record) { return record.step; }));
    columns.append(column_of(records, [](const Record& record) { return record.queued_at; }));
    columns.append(column_of(records, [](const Record& record) { return record.started_at; }));
    columns.append(column_of(records, [](const Record& record) { return record.ended_at; }));
    columns.append(column_of(records, [](const Record& record) { return record.measured.delay_sum; }));
    columns.append(column_of(records, [](const Record& record) { return record.measured.received; }));
    return columns;
  }

  nb::list critical_path() { return links_of(own().record().critical_path()); }
  nb::list carried() { return links_of(own().record().carried()); }

  // Columns in the order of astra_sim.engine.Link.
  static nb::list links_of(const std::vector<engine::Link>& links) {
    const auto number = [](std::uint32_t id) { return id == engine::kNone ? Time{-1} : Time{id}; };
    nb::list columns;
    columns.append(column_of(links, [](const engine::Link& link) { return static_cast<Time>(link.label.kind); }));
    columns.append(column_of(links, [](const engine::Link& link) { return link.begin; }));
    columns.append(column_of(links, [](const engine::Link& link) { return link.end; }));
    columns.append(column_of(links, [](const engine::Link& link) { return link.npu; }));
    columns.append(column_of(links, [&](const engine::Link& link) { return number(link.label.task); }));
    columns.append(column_of(links, [&](const engine::Link& link) { return number(link.label.step); }));
    columns.append(column_of(links, [&](const engine::Link& link) { return number(link.to); }));
    columns.append(column_of(links, [](const engine::Link& link) { return link.bytes; }));
    return columns;
  }

  nb::list unfinished() {
    nb::list rows;
    for (const engine::Unfinished& task : own().record().unfinished()) rows.append(nb::make_tuple(task.npu, task.task, task.begun));
    return rows;
  }

  nb::list unreceived() {
    nb::list rows;
    for (const engine::Unreceived& message : own().record().unreceived()) {
      rows.append(nb::make_tuple(message.source, message.destination, message.tag, message.bytes, message.count));
    }
    return rows;
  }

  nb::list blocked_ranks() {
    nb::list rows;
    for (const engine::RankState& state : own().record().blocked_ranks()) {
      rows.append(nb::make_tuple(state.task, state.chunk, state.step, state.npu, state.schedule, state.place, state.tokens, state.arrivals,
                                 state.next_action, state.posted));
    }
    return rows;
  }

  bool run(std::int64_t events, nb::callable issue, nb::callable standing, nb::callable place, nb::callable compute, nb::callable overhead,
           nb::callable delay, nb::callable inject, nb::callable advance) {
    if (running_.exchange(true)) invalid("the engine is running already");
    struct Stop {
      Machine& machine;
      ~Stop() {
        machine.callbacks_.set({});
        machine.running_ = false;
      }
    } stop{*this};
    runner_ = std::this_thread::get_id();
    callbacks_.set({std::move(issue), std::move(standing), std::move(place), std::move(compute), std::move(overhead), std::move(delay),
                    std::move(inject), std::move(advance)});
    try {
      nb::gil_scoped_release unlocked;
      return machine_->run(narrow<std::uint64_t>(std::max<std::int64_t>(events, 0)));
    } catch (const engine::NetworkFailure&) {
      if (PyErr_Occurred()) nb::raise_python_error();  // a network that was interrupted leaves the exception
      throw;
    }
  }

 private:
  nb::object capsule_;  // must outlive the machine
  Callbacks callbacks_;
  std::unique_ptr<engine::Machine> machine_;
  std::atomic<bool> running_{false};
  std::thread::id runner_;
};

// The columns step, queued, started and ended of records. Of each group the time spent, and the begins and ends of its spans.
nb::tuple uses_of(const std::vector<nb::bytes>& columns, const std::vector<std::vector<std::uint32_t>>& groups_of, std::size_t groups) {
  std::vector<std::vector<Time>> records;
  for (const nb::bytes& bytes : columns) records.push_back(column<Time>(bytes));
  if (records.size() != 4) invalid("expected records of four columns");
  const engine::Uses uses = engine::uses_of(records[0], records[1], records[2], records[3], groups_of, groups);
  nb::list result;
  for (const engine::Use& use : uses.groups) {
    result.append(nb::make_tuple(use.spent, column_of(use.spans, [](const auto& span) { return span.first; }),
                                 column_of(use.spans, [](const auto& span) { return span.second; })));
  }
  return nb::make_tuple(uses.counts, result);
}

nb::bytes repeated(const std::vector<nb::bytes>& parts, const nb::bytes& numbers, const nb::bytes& offsets) {
  std::vector<std::vector<Time>> columns;
  for (const nb::bytes& bytes : parts) columns.push_back(column<Time>(bytes));
  return bytes_of(engine::repeated(columns, column<std::uint32_t>(numbers), column<Time>(offsets)));
}

std::pair<std::uint32_t, std::int64_t> job_at(const Jobs& shown, std::int64_t place) {
  const std::deque<engine::Job>& jobs = shown.own();
  const auto size = narrow<std::int64_t>(jobs.size());
  if (place < -size || place >= size) throw nb::index_error("a place outside of the queue");
  const engine::Job& job = engine::at(jobs, place < 0 ? place + size : place);
  return {job.job_class, job.priority};
}

// -- exceptions -------------------------------------------------------------------------------------------------------

// Exceptions of the engine become Python exceptions with the same fields.
void set_fields(nb::object& error, const engine::NotUnderWay& why) { error.attr("number") = why.number; }

void set_fields(nb::object& error, const engine::UnlikeCollectives& why) {
  error.attr("issued") = nb::make_tuple(why.issued.program, why.issued.task);
  error.attr("first") = nb::make_tuple(why.first.program, why.first.task);
  error.attr("ordinal") = why.ordinal;
}

template <typename Exception>
void add_exception_with_fields(nb::module_& module, const char* name) {
  const nb::exception<Exception> type(module, name);
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* type) {
        try {
          std::rethrow_exception(pointer);
        } catch (const Exception& why) {
          nb::object error = nb::borrow(static_cast<PyObject*>(type))(why.what());
          set_fields(error, why);
          PyErr_SetObject(static_cast<PyObject*>(type), error.ptr());
        }
      },
      type.ptr());
}

// The words of a network may be in any encoding.
void add_network_failure(nb::module_& module) {
  const nb::exception<engine::NetworkFailure> type(module, "NetworkFailure");
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* type) {
        try {
          std::rethrow_exception(pointer);
        } catch (const engine::NetworkFailure& error) {
          const auto size = narrow<Py_ssize_t>(std::strlen(error.what()));
          const nb::object words = nb::steal(PyUnicode_DecodeUTF8(error.what(), size, "replace"));
          PyErr_SetObject(static_cast<PyObject*>(type), words.ptr());
        }
      },
      type.ptr());
}

}  // namespace

NB_MODULE(_compiled, module) {
  module.doc() = "The compiled engine.";
  nb::set_leak_warnings(false);  // an interrupted run may leave a machine behind
  nb::exception<engine::TooLong>(module, "TooLong");
  add_exception_with_fields<engine::NotUnderWay>(module, "NotUnderWay");
  add_exception_with_fields<engine::UnlikeCollectives>(module, "UnlikeCollectives");
  add_network_failure(module);
  module.def("computing", [](const nb::bytes& kind_of, const Numbers& durations, const nb::bytes& times, const nb::bytes& ended) {
    return engine::computing(column<std::uint32_t>(kind_of), durations, column<Time>(times), column<Time>(ended));
  });
  module.def("uses_of", &uses_of);
  module.def("repeated", &repeated);
  nb::class_<Jobs>(module, "Jobs").def("__len__", [](const Jobs& self) { return self.own().size(); }).def("__getitem__", &job_at);
  nb::class_<Machine>(module, "Machine")
      .def(nb::init<std::int64_t, bool, std::int64_t, bool, std::optional<BusOf>, bool>(), "npus"_a, "events"_a, "endpoint_ps"_a,
           "rendezvous"_a, "bus"_a.none(), "reports_completion"_a)
      .def_prop_ro("now", [](Machine& self) { return self.own().now(); })
      .def_prop_ro("events", [](Machine& self) { return self.own().events(); })
      .def_prop_ro("ended", [](Machine& self) { return self.own().ended(); })
      .def_prop_ro("messages", [](Machine& self) { return self.own().messages(); })
      .def_prop_ro("undelivered", [](Machine& self) { return self.own().undelivered(); })
      .def("set_table", &Machine::set_table)
      .def("add_queues", &Machine::add_queues)
      .def("set_traffic_classes", &Machine::set_traffic_classes)
      .def("add_ports", [](Machine& self, const Numbers& ports) { self.own().add_ports(ports); })
      .def("set_compute_times", [](Machine& self) { self.own().set_compute_times(); })
      .def("set_overheads", [](Machine& self, bool compute) { self.own().set_overheads(compute); })
      .def("add_program", &Machine::add_program)
      .def("add_groups", &Machine::add_groups)
      .def("add_schedule", &Machine::add_schedule)
      .def("add_phase", &Machine::add_phase)
      .def("observe", [](Machine& self, std::int64_t npu) { self.own().record().observe(count(npu, "NPU")); })
      .def("keep_causes", [](Machine& self, bool messages) { self.own().record().keep_causes(messages); })
      .def("carried", &Machine::carried)
      .def("critical_path", &Machine::critical_path)
      .def("times", &Machine::times)
      .def("sends", &Machine::sends)
      .def("ended_at", [](Machine& self) { return self.own().record().ended_at(); })
      .def("phase_steps", &Machine::phase_steps)
      .def("uses", [](Machine& self) { return self.own().record().uses(); })
      .def("causal_key", [](Machine& self, std::int64_t phase) { return self.own().record().causal_key(count(phase, "phase")); })
      .def("unfinished", &Machine::unfinished)
      .def("unreceived", &Machine::unreceived)
      .def("blocked_ranks", &Machine::blocked_ranks)
      .def("run", &Machine::run);
}
