// Events: the clock, the future events, and their order within one instant.
//
// Events of one instant are ordered by their stage: messages arrive and endpoints make tokens of them; their effects in
// the same instant follow, level by level; then tasks and phase steps end, and their effects in the same instant are another
// round. Within a stage events happen in the order of their causal key: the times, latest first, at which their predecessors were
// scheduled. An earlier causal key goes first, then the event that its NPU scheduled earlier. If NPUs wait for each other (on a network
// with contention, or at a port of memory), the event that any NPU scheduled earlier goes first, and the tokens of an NPU happen together.
// Messages that a network delivers at one instant keep the order in which it delivers them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "astra_sim/network.h"
#include "causal_keys.hpp"
#include "causes.hpp"
#include "errors.hpp"
#include "event_queue.hpp"
#include "ids.hpp"
#include "token_merge.hpp"

namespace astra::engine {

// Numbers what NPUs schedule: for each by itself, or (contended) for all NPUs together, because there it matters who comes first.
class Orders {
 public:
  Orders(std::size_t npus, bool contended) : contended_(contended), of_npus_(npus) {}

  bool contended() const { return contended_; }
  void contend() { contended_ = true; }
  // Which event, or which of the tasks and steps that it begins, of an NPU is next.
  std::uint32_t next_event(NpuId npu) { return ++(contended_ ? of_all_ : of_npus_[npu]).events; }
  std::uint32_t next_end(NpuId npu) { return ++(contended_ ? of_all_ : of_npus_[npu]).ends; }

 private:
  struct Counts {
    std::uint32_t events = 0, ends = 0;
  };

  bool contended_;
  std::vector<Counts> of_npus_;
  Counts of_all_;
};

class Events {
 public:
  Events(std::size_t npus, bool contended) : orders_(npus, contended), token_merge_(npus) {}

  Time now() const { return queue_.now(); }
  CausalKeyId causal_key() const { return causal_key_; }  // of the current event
  std::uint64_t happened() const { return happened_; }    // events so far
  CausalKeys& causal_keys() { return causal_keys_; }
  const CausalKeys& causal_keys() const { return causal_keys_; }
  void contend() { orders_.contend(); }  // NPUs wait for each other
  // Keep which event brings about which, from now on.
  void keep_causes(bool messages) { causes_ = std::make_unique<Causes>(messages); }
  Causes* causes() const { return causes_.get(); }  // nullptr where they are not kept
  Time after(Time delay) const { return sum(now(), delay); }

  // Let something happen that `npu` schedules, now or (`via`) at a time to come before it happens.
  template <typename What>
  void push(Time time, NpuId npu, const What& what, Time via = -1) {
    const CausalKeyId next = next_causal_key();
    if (via < 0) return push_with(time, npu, what, next);
    // Events that pass through this very instant join those that are scheduled for it already.
    if (via == time) return schedule(time, npu, what, next, orders_.next_event(npu), true);
    push_with(time, npu, what, via_.prepend(causal_keys_, via, next));
  }
  // Schedule an event with a causal key; in this instant, a level after the current event, or in the next round after an end.
  template <typename What>
  void push_with(Time time, NpuId npu, const What& what, CausalKeyId causal_key) {
    schedule(time, npu, what, causal_key, orders_.next_event(npu), false);
  }
  // Let a task or a step end: in this instant, after all messages and tokens of its round, or a round after the current end.
  template <typename What>
  void push_end(Time time, NpuId npu, const What& what, CausalKeyId causal_key, std::uint32_t order) {
    schedule(time, npu, what, causal_key, order, false);
  }
  // The causal key of events that are scheduled now; the caller must hold it to keep it.
  CausalKeyId next_causal_key() { return next_.prepend(causal_keys_, now(), causal_key_); }
  // Which of the tasks and steps that an NPU begins this is.
  std::uint32_t next_end_order(NpuId npu) { return orders_.next_end(npu); }
  bool empty() const { return queue_.empty(); }
  // When something happens next; ASTRA_NEVER where nothing does.
  Time next_time() { return queue_.empty() ? ASTRA_NEVER : queue_.next_time(); }
  // Go on to the next stage, and take its events; if NPUs wait for each other, the tokens of each where its first one is.
  // The events stay until the next call.
  std::span<const Event> next_level();
  // Go on to an event of that stage.
  void happens(const Event& event) {
    causal_key_ = event.is_end() ? 0 : event.run.via_now ? via_now_.prepend(causal_keys_, now(), event.key) : event.key;
    happened_ += event.run.count;
  }
  // The current event, if causes are kept.
  void label(const Event& event, const Label& label) { causes_->happens({event.npu, event.order, queue_.stage().is_ends()}, label); }
  // An event has happened: its causal key is not needed any more.
  void forget(const Event& event) { causal_keys_.drop(event.key, event.run.count); }

 private:
  template <typename What>
  void schedule(Time time, NpuId npu, const What& what, CausalKeyId key, std::uint32_t order, bool via_now) {
    constexpr bool is_end = std::is_same_v<What, TaskEnd> || std::is_same_v<What, StepEnd>;
    constexpr bool of_rank = std::is_same_v<What, MessageArrival> || std::is_same_v<What, TokenReady>;
    causal_keys_.hold(key);
    if (causes_) causes_->schedule({npu, order, is_end}, time);
    Run run;
    if constexpr (of_rank) {
      if (queue_.goes_on(time, key, order, npu, via_now, what)) return;
      if (!causes_) run.numbering = orders_.contended() ? Run::by_all : Run::by_npu;
      run.via_now = via_now;
    }
    queue_.push(time, key, order, npu, run, what);
  }

  CausalKeyId causal_key_ = 0;
  std::uint64_t happened_ = 0;

  CausalKeys causal_keys_;
  RecentKey next_, via_, via_now_;
  EventQueue queue_{causal_keys_};
  Orders orders_;
  std::vector<Event> level_;
  TokenMerge token_merge_;
  std::unique_ptr<Causes> causes_;
};

}  // namespace astra::engine
