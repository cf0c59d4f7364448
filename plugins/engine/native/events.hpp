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

namespace astra::engine {

class Events {
 public:
  Events(std::size_t npus, bool contended) : contended_(contended), orders_(npus), has_token_(npus / 64 + 1), tokens_of_(npus) {}

  Time now() const { return queue_.now(); }
  CausalKeyId causal_key() const { return causal_key_; }  // of the current event
  std::uint64_t happened() const { return happened_; }    // events so far
  CausalKeys& causal_keys() { return causal_keys_; }
  const CausalKeys& causal_keys() const { return causal_keys_; }
  void contend() { contended_ = true; }  // NPUs wait for each other
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
    if (via == time) return schedule(time, npu, what, next, next_order(npu), true);
    push_with(time, npu, what, prepend(via_, via, next));
  }
  // Schedule an event with a causal key; in this instant, a level after the current event, or in the next round after an end.
  template <typename What>
  void push_with(Time time, NpuId npu, const What& what, CausalKeyId causal_key) {
    schedule(time, npu, what, causal_key, next_order(npu), false);
  }
  // Let a task or a step end: in this instant, after all messages and tokens of its round, or a round after the current end.
  template <typename What>
  void push_end(Time time, NpuId npu, const What& what, CausalKeyId causal_key, std::uint32_t order) {
    schedule(time, npu, what, causal_key, order, false);
  }
  // The causal key of events that are scheduled now; the caller must hold it to keep it.
  CausalKeyId next_causal_key() { return prepend(next_, now(), causal_key_); }
  // Which of the tasks and steps that an NPU begins this is.
  std::uint32_t next_end_order(NpuId npu) { return ++(contended_ ? all_ : orders_[npu]).ends; }
  bool empty() const { return queue_.empty(); }
  // When something happens next; ASTRA_NEVER where nothing does.
  Time next_time() { return queue_.empty() ? ASTRA_NEVER : queue_.next_time(); }
  // Go on to the next stage, and take its events; if NPUs wait for each other, the tokens of each where its first one is.
  // The events stay until the next call.
  std::span<const Event> next_level();
  // Go on to an event of that stage.
  void happens(const Event& event) {
    causal_key_ = event.is_end() ? 0 : event.run.via_now ? prepend(via_now_, now(), event.key) : event.key;
    happened_ += event.run.count;
  }
  // The current event, if causes are kept.
  void label(const Event& event, const Label& label) { causes_->happens({event.npu, event.order, queue_.stage().is_ends()}, label); }
  // An event has happened: its causal key is not needed any more.
  void forget(const Event& event) { causal_keys_.drop(event.key, event.run.count); }

 private:
  static constexpr std::uint32_t kKeptLevel = std::uint32_t{1} << 14;  // the room of a larger level is given back

  // A token of a level by the place of its event, and the next one of its NPU.
  struct Token {
    std::uint32_t place, next;
  };
  struct TokenList {
    std::uint32_t first = kNone, last = kNone;
  };

  // How many events and ends were scheduled.
  struct Orders {
    std::uint32_t events = 0, ends = 0;
  };

  // The latest causal key, of events scheduled at `at` after `of`: most scheduled events share it.
  struct Recent {
    CausalKeyId causal_key = 0;
    CausalKeyId of = kNone;
    Time at = -1;
  };

  template <typename What>
  void schedule(Time time, NpuId npu, const What& what, CausalKeyId key, std::uint32_t order, bool via_now) {
    constexpr bool is_end = std::is_same_v<What, TaskEnd> || std::is_same_v<What, StepEnd>;
    constexpr bool of_rank = std::is_same_v<What, MessageArrival> || std::is_same_v<What, TokenReady>;
    causal_keys_.hold(key);
    if (causes_) causes_->schedule({npu, order, is_end}, time);
    Run run;
    if constexpr (of_rank) {
      if (queue_.goes_on(time, key, order, npu, via_now, what)) return;
      if (!causes_) run.numbering = contended_ ? Run::by_all : Run::by_npu;
      run.via_now = via_now;
    }
    queue_.push(time, key, order, npu, run, what);
  }
  // The causal key `of` with a time in front, from the latest one if that is it.
  CausalKeyId prepend(Recent& recent, Time time, CausalKeyId of) {
    return recent.of == of && recent.at == time ? recent.causal_key : prepend_anew(recent, time, of);
  }
  CausalKeyId prepend_anew(Recent& recent, Time time, CausalKeyId of);
  // The number of an event of an NPU; if NPUs wait for each other, of all NPUs: there it matters who comes first.
  std::uint32_t next_order(NpuId npu) { return ++(contended_ ? all_ : orders_[npu]).events; }
  // Whether an NPU has several tokens in this level, apart from each other.
  bool tokens_meet();
  // Let the tokens of an NPU happen together, if the first of them does.
  void merge_tokens();
  // Add the token of an NPU, one of an event of this level, to the joined level.
  void join(const Event& event, NpuId npu);

  CausalKeyId causal_key_ = 0;
  std::uint64_t happened_ = 0;
  bool contended_;

  CausalKeys causal_keys_;
  Recent next_, via_, via_now_;
  EventQueue queue_{causal_keys_};
  std::vector<Orders> orders_;  // of each NPU
  Orders all_;                  // of all NPUs
  std::vector<Event> level_, joined_level_;
  std::vector<std::uint64_t> has_token_;  // a bit for each NPU, clear between levels
  std::vector<Token> tokens_;             // of this level
  std::vector<TokenList> tokens_of_;      // of each NPU, empty between levels
  std::unique_ptr<Causes> causes_;
};

}  // namespace astra::engine
