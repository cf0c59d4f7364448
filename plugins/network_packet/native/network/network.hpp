// A network: domains that share no link, buffer or arbiter, in step. Times are picoseconds.
#pragma once

#include <astra_sim/interrupt.hpp>
#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "interfaces/vnet_choice.hpp"
#include "network/domain.hpp"
#include "network/message_network.hpp"

namespace astra::packet {

class Network : public MessageNetwork {
 public:
  // With `representatives`, domains of one form that do the same are simulated once.
  // Throws std::invalid_argument where `vnet_choice` names others than `vnets`.
  Network(int npus, int vnets, VnetChoice vnet_choice, std::int64_t clock_ps, bool representatives);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Node i of the domain is npus[i]; its virtual networks are those its injection ports have.
  void add_domain(std::shared_ptr<const Shape> shape, const std::vector<int>& npus);
  void wake_senders() override { wake_senders_ = true; }

  void inject(std::int64_t time, std::uint64_t number, int source, int destination, std::int64_t bytes, int queue) override;
  bool advance(std::int64_t until) override;
  std::int64_t next_event() const override;

  // Domains as they were added.
  std::size_t domains() const override { return instances_.size(); }
  const Shape& shape(std::size_t index) const override { return group_of(index).domain->shape(); }
  Statistics statistics(std::size_t index) const override;
  std::int64_t clock_ps() const override { return clock_ps_; }
  Cycle now() const override { return now_; }
  void watch(Watcher watcher) override { interruptible_.watch(std::move(watcher)); }
  std::int64_t shared_windows() const override;
  std::string check() const override;

 private:
  struct Place {
    int instance = -1;
    int node = -1;
  };
  // A domain that was added. Those that have done the same so far are members of one group, and one state represents all.
  struct Instance {
    int group = 0;
    std::vector<std::int64_t> earlier;  // counters before it came into its group
  };
  struct Group {
    std::unique_ptr<Domain> domain;
    std::vector<int> members;
    std::vector<std::vector<std::uint64_t>> numbers;  // of a message, by member; its number in the domain is its place here
    std::vector<std::uint64_t> free;
    Cycle next = kNever;  // cycle in which the domain has something to do, if the group has members
    void look() { next = members.empty() ? kNever : domain->next(); }
  };
  // A message that is sent in a cycle that has not been run yet.
  struct Later {
    Cycle cycle;
    std::uint64_t order;
    std::uint64_t number;
    std::int64_t bytes;
    int source;
    int destination;
    int vnet;
    bool operator>(const Later& other) const { return cycle != other.cycle ? cycle > other.cycle : order > other.order; }
  };

  // The next cycle in which any domain has something to do or a message is to be sent, or kNever.
  Cycle next_cycle() const;
  // The group in which an instance is.
  const Group& group_of(std::size_t instance) const { return at(groups_, instances_[instance].group); }
  Group& group_of(std::size_t instance) { return at(groups_, instances_[instance].group); }
  // Whether an interface of an NPU was at work in a cycle that has been run, if that matters (rule `same_cycle`).
  bool awake(int npu, Cycle cycle);
  // Hands all messages of a cycle that has been run to their interfaces. Members of a group that get different ones part.
  void send_all(Cycle cycle);
  // Takes in all groups of the same form that are at rest in the same state.
  void merge(int group, Cycle cycle);
  // Lets these members of a group go on by themselves. Returns their new group.
  int split(int group, const std::vector<int>& members);

  // The virtual network of a message, as declared, or -1.
  int vnet_of(int source, int destination, int queue) const;
  // The one with the shortest way, of several the first, or -1.
  int nearest_vnet(int source, int destination) const;
  // The interface of an NPU in a virtual network; its instance is -1 if there is none.
  const Place& place(int npu, int vnet) const { return at(places_, npu * vnets_ + vnet); }
  // Throws Deadlock if a message has not arrived, with its wait cycle.
  void report_deadlock() const;

  int npus_;
  int vnets_;
  VnetChoice vnet_choice_;
  std::int64_t clock_ps_;
  bool representatives_;
  std::vector<Instance> instances_;
  std::vector<Group> groups_;
  std::vector<std::uint64_t> keys_;
  std::vector<Place> places_;
  std::priority_queue<Later, std::vector<Later>, std::greater<>> later_;
  std::uint64_t injected_ = 0;
  bool same_cycle_ = false;
  bool wake_senders_ = false;
  Interruptible<kCyclesBetweenLooks> interruptible_;
  Cycle now_ = -1;  // all cycles up to this one have been run
};

}  // namespace astra::packet
