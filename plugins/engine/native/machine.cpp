#include "machine.hpp"

#include <string>
#include <utility>
#include <variant>

#include "errors.hpp"

namespace astra::engine {
namespace {

// One function for each kind of event.
template <typename... Functions>
struct Handlers : Functions... {
  using Functions::operator()...;
};

Options checked(Options options) {
  if (options.npus == 0) invalid("an engine without NPUs");
  if (options.endpoint_ps < 0) invalid("a negative endpoint delay");
  return options;
}

}  // namespace

Machine::Machine(Options options, Host& host)
    : options_(checked(std::move(options))),
      events_(options_.npus, options_.network == NetworkKind::events),
      processors_(host, options_.npus),
      transport_(events_, processors_, host, options_.network, options_.reports_completion),
      phase_kinds_(events_.causal_keys(), options_.npus, options_.bus != nullptr),
      phases_(events_, transport_, phase_kinds_, options_.npus, options_.rendezvous, options_.bus.get()),
      agreements_(options_.npus),
      chunks_(events_, phases_, agreements_, host, options_.npus, *this),
      collectives_(events_, phase_kinds_, phases_, chunks_, host),
      point_to_point_(events_, transport_, options_.npus, options_.rendezvous),
      durations_(processors_, host, options_.npus),
      tasks_(events_, durations_, collectives_, point_to_point_, agreements_, options_.npus),
      record_(events_, phase_kinds_, chunks_, collectives_, point_to_point_, tasks_) {}

// -- building ---------------------------------------------------------------------------------------------------------

void Machine::add_queues(const std::vector<QueuePlan>& plans) {
  if (tasks_.started() || chunks_.has_queues()) invalid("queues are given once, before the run");
  chunks_.add_queues(plans);
}

void Machine::set_traffic_classes(std::int32_t without_queue, std::vector<std::int32_t> of_queues) {
  transport_.set_traffic_classes(without_queue, std::move(of_queues));
}

void Machine::add_ports(const std::vector<std::int64_t>& ports) {
  if (tasks_.started()) invalid("ports are given before the run");
  if (durations_.add_ports(ports)) events_.contend();
}

void Machine::set_overheads(bool compute) {
  if (tasks_.started()) invalid("overheads are given before the run");
  processors_.set_overheads(compute);
}

GroupsId Machine::add_groups(std::vector<NpuId> members, std::uint32_t size, bool loop_back) {
  return phase_kinds_.add_groups(std::move(members), size, loop_back);
}

ScheduleId Machine::add_schedule(RankPrograms programs, GroupsId groups) { return phase_kinds_.add_schedule(std::move(programs), groups); }

PhaseKindId Machine::add_phase(ScheduleId schedule, std::int32_t queue, bool together, Time endpoint_ps, bool barrier) {
  return phase_kinds_.add_phase(schedule, queue, together, endpoint_ps, barrier);
}

// -- running ----------------------------------------------------------------------------------------------------------

bool Machine::run(std::uint64_t events) {
  tasks_.start_all();
  const std::uint64_t limit = events ? events_.happened() + events : UINT64_MAX;
  while (true) {
    transport_.exchange();
    if (events_.empty()) return false;
    if (events_.happened() >= limit) return true;
    for (const Event& event : events_.next_level()) {
      events_.happens(event);
      if (events_.causes()) events_.label(event, label(event.what));
      handle(event);
      events_.forget(event);
    }
  }
}

void Machine::handle(const Event& payload) {
  const Run& run = payload.run;
  // Nearly all events are of two kinds.
  if (const auto* event = std::get_if<MessageArrival>(&payload.what)) return phases_.on_arrival(event->rank, event->receipt, run);
  if (const auto* event = std::get_if<TokenReady>(&payload.what)) return phases_.on_tokens(event->rank, run);
  handle(payload.what, run);
}

void Machine::handle(const EventPayload& what, const Run& run) {
  const Handlers handlers{
      [&](const MessageArrival& event) { phases_.on_arrival(event.rank, event.receipt, run); },
      [this](const RequestArrival& event) { phases_.on_request(event.rank, event.receipt); },
      [&](const TokenReady& event) { phases_.on_tokens(event.rank, run); },
      [this](const Meeting& event) { phases_.on_meeting(event.rank, event.receipt); },
      [this](const Departure& event) { transport_.on_departure(event.message); },
      [this](const Landing& event) { land(event.message); },
      [&](const Reception& event) { handle(transport_.on_reception(event.message), Run()); },
      [this](const BusCall& event) { phases_.on_bus_call(event.npu, event.call); },
      [this](const PointToPointArrival& event) { point_to_point_.on_arrival(event.mailbox, event.sender); },
      [this](const PointToPointSent& event) { point_to_point_.on_sent(event.sender); },
      [this](const PointToPointRequest& event) { point_to_point_.on_request(event.mailbox); },
      [this](const StepEnd& event) { chunks_.finish(event.step); },
      [this](const TaskEnd& event) { tasks_.finish(event.task); },
  };
  std::visit(handlers, what);
}

void Machine::land(HandledId message) {
  if (const std::optional<EventPayload> arrival = transport_.on_landing(message)) handle(*arrival, Run());
}

Label Machine::label(const EventPayload& what) const {
  const auto of_rank = [this](LinkKind kind, RankId rank) { return chunks_.label(kind, phases_.step_of(rank)); };
  const Handlers labels{
      [&](const MessageArrival& event) { return of_rank(LinkKind::message, event.rank); },
      [&](const RequestArrival& event) { return of_rank(LinkKind::request, event.rank); },
      [&](const TokenReady& event) { return of_rank(LinkKind::token, event.rank); },
      [&](const BusCall&) { return Label{LinkKind::bus}; },
      [&](const Departure&) { return Label{LinkKind::overhead}; },
      [&](const Reception&) { return Label{LinkKind::overhead}; },
      [&](const Landing& event) { return label(transport_.handled(event.message).arrival); },
      [&](const PointToPointArrival& event) { return Label{LinkKind::point_to_point, event.sender.number}; },
      [&](const PointToPointSent& event) { return Label{LinkKind::point_to_point, event.sender.number}; },
      [&](const PointToPointRequest&) { return Label{LinkKind::point_to_point_request}; },
      [&](const Meeting& event) { return of_rank(LinkKind::meeting, event.rank); },
      [&](const TaskEnd& event) { return Label{LinkKind::task, event.task.number}; },
      [&](const StepEnd& event) { return chunks_.label(LinkKind::step, event.step); },
  };
  return std::visit(labels, what);
}

void Machine::chunk_ended(TaskId task, CollectiveId collective) {
  collectives_.chunk_ended(collective);
  tasks_.chunk_ended(task);
}

}  // namespace astra::engine
