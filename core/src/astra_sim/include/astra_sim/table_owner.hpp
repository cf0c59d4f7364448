// The network function table (network.h) of a network that is a C++ class, in a Python capsule (C++20, in a module of Python).
//
// Such a network has
//   void inject(std::int64_t time, std::span<const Message> messages)
//       takes messages; Message, astra_message or astra_message_v2, is the version of its table
//   bool advance(std::int64_t until)
//       returns whether anything is delivered by then (ASTRA_NEVER: no limit)
//   std::int64_t delivered_at() const, and delivered()
//       when that was, and the messages: a vector or span of their numbers (version 1), or of astra_delivery (version 2)
// and may have
//   std::int64_t next_event()                       of version 1, which asks for it
//   static constexpr bool kTellsSent                of version 2: whether deliveries include the senders' knowledge
//   std::vector<astra_statistic> table_statistics() figures of the run so far
//   std::int64_t delay(source, destination, bytes)  where messages do not wait for each other: -1 for an error
// Times are picoseconds. Exceptions of these functions become the error of the table; Interrupted leaves its Python exception set.
#pragma once

#include <Python.h>
#include <astra_sim/network.h>

#include <astra_sim/interrupt.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace astra {

template <class Network>
concept TakesFlows = requires(Network& network, std::span<const astra_message_v2> messages) { network.inject(std::int64_t{}, messages); };

// A network, and the table that speaks for it. The capsule owns it.
template <class Network>
class TableOwner {
 public:
  static constexpr bool kIsV2 = TakesFlows<Network>;
  using Table = std::conditional_t<kIsV2, astra_network_v2, astra_network>;
  using Message = std::conditional_t<kIsV2, astra_message_v2, astra_message>;
  using Delivery = std::conditional_t<kIsV2, astra_delivery, std::uint64_t>;

  // A new capsule, or a null pointer where Python has set an exception.
  static PyObject* capsule_of(std::shared_ptr<Network> network) {
    auto owner = std::make_unique<TableOwner>(std::move(network));
    PyObject* const capsule = PyCapsule_New(&owner->table_, name(), [](PyObject* of_owner) {
      delete static_cast<TableOwner*>(static_cast<Table*>(PyCapsule_GetPointer(of_owner, name()))->state);
    });
    if (capsule != nullptr) owner.release();
    return capsule;
  }

  explicit TableOwner(std::shared_ptr<Network> network) : network_(std::move(network)) {
    table_.version = kIsV2 ? ASTRA_NETWORK_VERSION_2 : ASTRA_NETWORK_VERSION;
    table_.size = sizeof(Table);
    table_.state = this;
    table_.inject = &inject;
    table_.advance = &advance;
    table_.error = [](void* state) { return of(state).error_.c_str(); };
    if constexpr (requires { Network::kTellsSent; }) table_.tells_sent = Network::kTellsSent ? 1 : 0;
    if constexpr (!kIsV2) table_.next_event = &next_event;
    if constexpr (requires { network_->delay(0, 0, 0); }) table_.delay = &delay;
    if constexpr (requires { network_->table_statistics(); }) table_.statistics = &statistics;
  }

 private:
  static constexpr const char* name() { return kIsV2 ? ASTRA_NETWORK_CAPSULE_V2 : ASTRA_NETWORK_CAPSULE; }
  static TableOwner& of(void* state) { return *static_cast<TableOwner*>(state); }

  static int inject(void* state, std::int64_t time, const Message* messages, std::size_t count) {
    TableOwner& owner = of(state);
    return guarded(owner.error_, [&] { owner.network_->inject(time, std::span(messages, count)); });
  }

  static int advance(void* state, std::int64_t until, std::int64_t* time, const Delivery** deliveries, std::size_t* count) {
    TableOwner& owner = of(state);
    return guarded(owner.error_, [&] {
      *count = 0;
      if (!owner.network_->advance(until)) return;
      *time = owner.network_->delivered_at();
      *deliveries = owner.network_->delivered().data();
      *count = owner.network_->delivered().size();
    });
  }

  static std::int64_t delay(void* state, std::int32_t source, std::int32_t destination, std::int64_t bytes) {
    return of(state).network_->delay(source, destination, bytes);
  }

  static std::int64_t next_event(void* state) {
    TableOwner& owner = of(state);
    std::int64_t next = 0;
    return guarded(owner.error_, [&] { next = owner.network_->next_event(); }) == 0 ? next : 0;
  }

  static std::size_t statistics(void* state, const astra_statistic** figures) {
    TableOwner& owner = of(state);
    if (guarded(owner.error_, [&] { owner.figures_ = owner.network_->table_statistics(); }) != 0) owner.figures_.clear();
    *figures = owner.figures_.data();
    return owner.figures_.size();
  }

  std::shared_ptr<Network> network_;
  std::string error_;
  std::vector<astra_statistic> figures_;
  Table table_{};
};

}  // namespace astra
