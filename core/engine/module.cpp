// The Python module astra_sim.engine._compiled: the engine as the class Machine. astra_sim/engine/compiled.py wraps it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <thread>
#include <tuple>

#include "machine.hpp"
#include "spans.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Numbers = std::vector<std::int64_t>;

std::int32_t small(std::int64_t number) {
  if (number < INT32_MIN || number > INT32_MAX) throw std::invalid_argument(std::to_string(number) + " does not fit 32 bits");
  return static_cast<std::int32_t>(number);
}

std::uint32_t count(std::int64_t number, const char* what) {
  if (number < 0 || number >= UINT32_MAX) throw std::invalid_argument(std::string(what) + " " + std::to_string(number));
  return static_cast<std::uint32_t>(number);
}

// A column of numbers, in the byte order of the machine.
template <typename Number>
std::vector<Number> column(const nb::bytes& data) {
  if (data.size() % sizeof(Number)) throw std::invalid_argument("a broken column");
  std::vector<Number> numbers(data.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), data.c_str(), data.size());
  return numbers;
}

template <typename Number>
nb::bytes bytes_of(const std::vector<Number>& numbers) {
  return nb::bytes(numbers.data(), numbers.size() * sizeof(Number));
}

// The jobs of a queue, to be looked at while its order is asked.
struct Jobs {
  const std::deque<astra::Job>* jobs;

  const std::deque<astra::Job>& own() const {
    if (!jobs) throw std::invalid_argument("the jobs of a queue can be looked at while its order is asked, not later");
    return *jobs;
  }
};

// The functions of one run, called with the interpreter lock.
class Callbacks : public astra::Host {
 public:
  nb::callable issue_, standing_, place_, delay_, inject_, advance_;

  std::vector<astra::Chunk> issue(std::uint32_t program, std::uint32_t task, astra::Time now) override {
    nb::gil_scoped_acquire lock;
    using PartOf = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, Numbers>;
    const auto given = nb::cast<std::vector<std::vector<PartOf>>>(issue_(program, task, now));
    std::vector<astra::Chunk> chunks;
    for (const auto& parts : given) {
      astra::Chunk& chunk = chunks.emplace_back();
      for (const auto& [sort, priority, age, queue, phase, delay, trail] : parts) {
        chunk.push_back({{count(sort, "job"), priority}, age, small(queue), small(phase), delay, trail});
      }
    }
    return chunks;
  }

  astra::Standing standing(std::uint32_t queue, std::uint32_t sort) override {
    nb::gil_scoped_acquire lock;
    const auto [rule, keys, sides] = nb::cast<std::tuple<std::int64_t, Numbers, std::vector<std::uint8_t>>>(standing_(queue, sort));
    if (keys.size() != sides.size()) throw std::invalid_argument("a standing with broken columns");
    astra::Standing standing{count(rule, "rule"), {}};
    for (std::size_t place = 0; place < keys.size(); ++place) standing.marks.push_back({keys[place], sides[place]});
    return standing;
  }

  std::uint32_t place(std::uint32_t queue, const std::deque<astra::Job>& jobs, std::uint32_t running, const astra::Job& job) override {
    nb::gil_scoped_acquire lock;
    const nb::object shown = nb::cast(Jobs{&jobs});
    struct Hide {
      Jobs& jobs;
      ~Hide() { jobs.jobs = nullptr; }
    } hide{nb::cast<Jobs&>(shown)};
    return nb::cast<std::uint32_t>(place_(queue, shown, running, std::make_pair(job.sort, job.priority)));
  }

  astra::Time delay(std::int32_t source, std::int32_t destination, std::int64_t bytes) override {
    nb::gil_scoped_acquire lock;
    return nb::cast<astra::Time>(delay_(source, destination, bytes));
  }

  void inject(astra::Time now, const std::vector<astra_message>& messages) override {
    nb::gil_scoped_acquire lock;
    nb::list given;
    for (const astra_message& message : messages) {
      given.append(nb::make_tuple(message.number, message.source, message.destination, message.bytes, message.queue));
    }
    inject_(now, given);
  }

  bool advance(astra::Time now, astra::Time until, astra::Time& time, std::vector<std::uint64_t>& numbers) override {
    nb::gil_scoped_acquire lock;
    const nb::object limit = until == ASTRA_NEVER ? nb::none() : nb::object(nb::int_(until));
    const auto delivery = nb::cast<std::optional<std::tuple<astra::Time, std::vector<std::uint64_t>>>>(advance_(now, limit));
    if (!delivery) return false;
    std::tie(time, numbers) = *delivery;
    return true;
  }
};

// A machine that one thread at a time may use. While it runs only its own callbacks may.
class Machine {
 public:
  Machine(std::int64_t npus, bool events, std::int64_t endpoint_ps, bool rendezvous,
          const std::optional<std::tuple<std::int64_t, std::int64_t, std::int64_t, double, std::int64_t>>& bus) {
    astra::Options options;
    options.npus = count(npus, "NPUs:");
    options.network = events ? astra::NetworkKind::events : astra::NetworkKind::delays;
    options.endpoint_ps = endpoint_ps;
    options.rendezvous = rendezvous;
    if (bus) {
      const auto& [latency, overhead, gap, gap_per_byte, reduction_delay] = *bus;
      options.bus = std::make_unique<astra::BusOptions>(astra::BusOptions{latency, overhead, gap, gap_per_byte, reduction_delay});
    }
    machine_ = std::make_unique<astra::Machine>(std::move(options));
  }

  astra::Machine& own() {
    if (running_ && std::this_thread::get_id() != runner_) throw std::invalid_argument("the engine is running in another thread");
    return *machine_;
  }

  void set_table(const nb::capsule& capsule) {
    const auto* table = static_cast<const astra_network*>(capsule.data(ASTRA_NETWORK_CAPSULE));
    if (!table) nb::raise_python_error();
    if (table->version != ASTRA_NETWORK_VERSION || table->size < sizeof(astra_network)) {
      throw std::invalid_argument("the network function table has version " + std::to_string(table->version) + "; " +
                                  std::to_string(ASTRA_NETWORK_VERSION) + " is right");
    }
    own().set_table(table);
    capsule_ = capsule;
  }

  // Columns of 64 bits for the kinds of tasks, none where there are no tasks: kind, delay, unit, bytes, tag, group, collective, whether
  // it repeats, the kind of peer and its value. The other columns are those of astra_sim.rows.Rows.
  void add_program(const std::vector<nb::bytes>& fields, const nb::bytes& kind_of, const nb::bytes& times, const nb::bytes& after_end,
                   const nb::bytes& after, const Numbers& npus) {
    std::vector<Numbers> f;
    for (const nb::bytes& bytes : fields) f.push_back(column<std::int64_t>(bytes));
    const std::size_t size = f.empty() ? 0 : f[0].size();
    if (f.size() != (size ? 10 : 0) || std::any_of(f.begin(), f.end(), [size](const Numbers& each) { return each.size() != size; })) {
      throw std::invalid_argument("a program with broken columns");
    }
    std::vector<astra::Task> kinds;
    kinds.reserve(size);
    for (std::size_t k = 0; k < size; ++k) {
      if (f[0][k] < 0 || f[0][k] > 5) throw std::invalid_argument("a task is of no kind");
      if (f[2][k] < -1 || f[2][k] >= astra::kUnits) throw std::invalid_argument("a task needs a unit that is none");
      kinds.push_back({static_cast<astra::TaskKind>(f[0][k]), static_cast<std::int8_t>(f[2][k]), f[7][k] != 0, f[1][k],
                       peer(f[8][k], f[9][k]), small(f[4][k]), f[3][k], small(f[5][k]), small(f[6][k])});
    }
    own().add_program(std::move(kinds), column<std::uint32_t>(kind_of), column<astra::Time>(times), column<std::uint64_t>(after_end),
                      column<std::uint32_t>(after), npus);
  }

  std::uint32_t add_groups(const Numbers& members, std::int64_t size, bool loop_back) {
    std::vector<std::int32_t> npus;
    npus.reserve(members.size());
    for (const std::int64_t member : members) npus.push_back(small(member));
    return own().add_groups(std::move(npus), small(size), loop_back);
  }

  // Of each program: starts, actions of 11 numbers, memory_ps, carriages of 3 numbers, whether messages are charged in turn.
  using ProgramOf = std::tuple<std::int64_t, Numbers, Numbers, Numbers, bool>;

  std::uint32_t add_schedule(const std::vector<ProgramOf>& given, std::int64_t groups) {
    std::vector<astra::RankProgram> programs;
    for (const auto& [starts, actions, memory_ps, carriages, in_turn] : given) {
      if (actions.size() % 11 || carriages.size() % 3) throw std::invalid_argument("a program with broken rows");
      astra::RankProgram& program = programs.emplace_back();
      program.starts = small(starts);
      program.in_turn = in_turn;
      program.credits = small(starts + static_cast<std::int64_t>(memory_ps.size()));
      program.memory_ps = memory_ps;
      program.actions.reserve(actions.size() / 11);
      for (std::size_t row = 0; row < actions.size(); row += 11) {
        const std::int64_t* a = &actions[row];
        program.actions.push_back({small(a[0]), small(a[1]), peer(a[2], a[3]), small(a[4]), peer(a[5], a[6]), small(a[7]), a[8], a[9], a[10]});
      }
      for (std::size_t row = 0; row < carriages.size(); row += 3) {
        program.carriages.push_back({carriages[row], carriages[row + 1] != 0, carriages[row + 2] != 0});
      }
    }
    return own().add_schedule(std::move(programs), count(groups, "groups"));
  }

  // The slots of each queue, and the rules of its order: whether by priority, whether before equal ones, whether kinds take turns.
  void add_queues(const std::vector<std::tuple<std::int64_t, std::vector<std::tuple<bool, bool, bool>>>>& given) {
    std::vector<astra::QueuePlan> plans;
    for (const auto& [slots, rules] : given) {
      astra::QueuePlan& plan = plans.emplace_back(astra::QueuePlan{slots, {}});
      for (const auto& [by_priority, before_equal, in_turn] : rules) plan.rules.push_back({by_priority, before_equal, in_turn});
    }
    own().add_queues(plans);
  }

  bool run(std::int64_t events, nb::callable issue, nb::callable standing, nb::callable place, nb::callable delay, nb::callable inject,
           nb::callable advance) {
    if (running_.exchange(true)) throw std::invalid_argument("the engine is running already");
    struct Stop {
      std::atomic<bool>& running;
      ~Stop() { running = false; }
    } stop{running_};
    runner_ = std::this_thread::get_id();
    Callbacks callbacks;
    callbacks.issue_ = std::move(issue);
    callbacks.standing_ = std::move(standing);
    callbacks.place_ = std::move(place);
    callbacks.delay_ = std::move(delay);
    callbacks.inject_ = std::move(inject);
    callbacks.advance_ = std::move(advance);
    try {
      nb::gil_scoped_release unlocked;
      return machine_->run(static_cast<std::uint64_t>(events < 0 ? 0 : events), callbacks);
    } catch (const astra::NetworkFailure&) {
      if (PyErr_Occurred()) nb::raise_python_error();  // a network that was interrupted leaves the exception
      throw;
    }
  }

 private:
  static astra::Peer peer(std::int64_t kind, std::int64_t value) {
    if (kind < 0 || kind > 3) throw std::invalid_argument("a peer of no kind");
    return {static_cast<astra::PeerKind>(kind), small(value)};
  }

  nb::object capsule_;  // must outlive the machine
  std::unique_ptr<astra::Machine> machine_;
  std::atomic<bool> running_{false};
  std::thread::id runner_;
};

}  // namespace

NB_MODULE(_compiled, module) {
  module.doc() = "The compiled engine.";
  nb::set_leak_warnings(false);  // an interrupted run may leave a machine behind
  nb::exception<astra::TooLong>(module, "TooLong");
  nb::exception<astra::NotUnderWay>(module, "NotUnderWay");
  nb::exception<astra::UnlikeCollectives>(module, "UnlikeCollectives");
  const nb::exception<astra::NetworkFailure> failure(module, "NetworkFailure");
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* type) {
        try {
          std::rethrow_exception(pointer);
        } catch (const astra::NetworkFailure& error) {
          // The words of a network may be in any encoding.
          const nb::object words = nb::steal(PyUnicode_DecodeUTF8(error.what(), static_cast<Py_ssize_t>(std::strlen(error.what())), "replace"));
          PyErr_SetObject(static_cast<PyObject*>(type), words.ptr());
        }
      },
      failure.ptr());
  module.def("computing", [](const nb::bytes& kind_of, const Numbers& durations, const nb::bytes& times, const nb::bytes& ended) {
    return astra::computing(column<std::uint32_t>(kind_of), durations, column<astra::Time>(times), column<astra::Time>(ended));
  });
  // The columns part, queued, started and ended of records.
  module.def("uses_of", [](const std::vector<nb::bytes>& columns, const std::vector<std::vector<std::uint32_t>>& groups_of, std::size_t groups) {
    std::vector<std::vector<astra::Time>> c;
    for (const nb::bytes& bytes : columns) c.push_back(column<astra::Time>(bytes));
    if (c.size() != 4) throw std::invalid_argument("records of four columns are right");
    const astra::Uses uses = astra::uses_of(c[0], c[1], c[2], c[3], groups_of, groups);
    nb::list found;
    for (const astra::Use& use : uses.groups) {
      std::vector<astra::Time> begins, ends;
      for (const auto& [begin, end] : use.spans) {
        begins.push_back(begin);
        ends.push_back(end);
      }
      found.append(nb::make_tuple(use.spent, bytes_of(begins), bytes_of(ends)));
    }
    return nb::make_tuple(uses.counts, found);
  });
  nb::class_<Jobs>(module, "Jobs")
      .def("__len__", [](const Jobs& self) { return self.own().size(); })
      .def("__getitem__", [](const Jobs& self, std::int64_t place) {
        const std::deque<astra::Job>& jobs = self.own();
        const auto size = static_cast<std::int64_t>(jobs.size());
        if (place < -size || place >= size) throw nb::index_error("a place outside of the queue");
        const astra::Job& job = jobs[static_cast<std::size_t>(place < 0 ? place + size : place)];
        return std::make_pair(job.sort, job.priority);
      });
  nb::class_<Machine>(module, "Machine")
      .def(nb::init<std::int64_t, bool, std::int64_t, bool,
                    std::optional<std::tuple<std::int64_t, std::int64_t, std::int64_t, double, std::int64_t>>>(),
           "npus"_a, "events"_a, "endpoint_ps"_a, "rendezvous"_a, "bus"_a.none())
      .def("set_table", &Machine::set_table)
      .def("add_queues", &Machine::add_queues)
      .def("add_ports", [](Machine& self, const Numbers& ports) { self.own().add_ports(ports); })
      .def("observe", [](Machine& self, std::int64_t npu) { self.own().observe(count(npu, "NPU")); })
      .def("add_program", &Machine::add_program)
      .def("add_groups", &Machine::add_groups)
      .def("add_schedule", &Machine::add_schedule)
      .def("add_phase",
           [](Machine& self, std::int64_t schedule, std::int64_t queue, bool together, std::int64_t endpoint_ps) {
             return self.own().add_phase(count(schedule, "schedule"), small(queue), together, endpoint_ps);
           })
      .def("ended_at", [](Machine& self) { return self.own().ended_at(); })
      .def("run", &Machine::run)
      .def_prop_ro("now", [](Machine& self) { return self.own().now(); })
      .def_prop_ro("events", [](Machine& self) { return self.own().events(); })
      .def_prop_ro("messages", [](Machine& self) { return self.own().messages(); })
      .def_prop_ro("undelivered", [](Machine& self) { return self.own().undelivered(); })
      .def("times",
           [](Machine& self, std::int64_t npu) {
             std::vector<astra::Time> ready, ended;
             self.own().times(count(npu, "NPU"), ready, ended);
             return nb::make_tuple(bytes_of(ready), bytes_of(ended));
           })
      .def("sends",
           [](Machine& self, std::int64_t npu) {
             std::vector<astra::Time> tasks, begun;
             for (const auto& [task, time] : self.own().sends(count(npu, "NPU"))) {
               tasks.push_back(task);
               begun.push_back(time);
             }
             return nb::make_tuple(bytes_of(tasks), bytes_of(begun));
           })
      .def("parts",
           [](Machine& self, std::int64_t npu) {
             // Columns in the order of astra_sim.engine.PartRecord.
             std::array<std::vector<astra::Time>, 7> columns;
             const std::vector<astra::PartRecord> records = self.own().parts(count(npu, "NPU"));
             for (std::vector<astra::Time>& values : columns) values.reserve(records.size());
             for (const astra::PartRecord& r : records) {
               const astra::Time values[] = {r.task, r.part, r.queued_at, r.started_at, r.ended_at, r.delay_sum, r.received};
               for (std::size_t place = 0; place < columns.size(); ++place) columns[place].push_back(values[place]);
             }
             nb::list given;
             for (const std::vector<astra::Time>& values : columns) given.append(bytes_of(values));
             return given;
           })
      .def("uses", [](Machine& self) { return self.own().uses(); })
      .def("trail", [](Machine& self, std::int64_t phase) { return self.own().trail(count(phase, "phase")); })
      .def("unfinished",
           [](Machine& self) {
             nb::list rows;
             for (const astra::Unfinished& u : self.own().unfinished()) rows.append(nb::make_tuple(u.npu, u.task, u.begun));
             return rows;
           })
      .def("unreceived",
           [](Machine& self) {
             nb::list rows;
             for (const astra::Unreceived& u : self.own().unreceived()) {
               rows.append(nb::make_tuple(u.source, u.destination, u.tag, u.bytes, u.count));
             }
             return rows;
           })
      .def("stuck", [](Machine& self) {
        nb::list rows;
        for (const astra::RankState& s : self.own().stuck()) {
          rows.append(nb::make_tuple(s.task, s.chunk, s.part, s.npu, s.schedule, s.place, s.credits, s.arrivals, s.next_action, s.posted));
        }
        return rows;
      });
}
