// A network in which one NPU represents all that automorphisms take to it, as long as they all do the same (see docs/packet.md).
//
// Its domain has the routers of one NPU in place of those of its translates: traffic that leaves it by a link of a collapsed dimension
// comes back to it by that link. If NPUs do not do the same any more, or routers choose by numbers of ports that vary among translates, a
// network is made in which the dimensions that this concerns are not collapsed. It gets all messages so far once more, and goes on.
#pragma once

#include <astra_sim/interrupt.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "interfaces/vnet_choice.hpp"
#include "network/domain.hpp"
#include "network/message_network.hpp"
#include "quotient/automorphisms.hpp"
#include "quotient/symmetric_sends.hpp"

namespace astra::packet {

class QuotientNetwork : public MessageNetwork {
 public:
  // Makes a network in which these dimensions are collapsed at most, or throws Interrupted where it set a Python exception.
  using Make = std::function<std::shared_ptr<MessageNetwork>(const std::vector<bool>& collapsed)>;

  QuotientNetwork(std::shared_ptr<const Shape> shape, Automorphisms automorphisms, VnetChoice vnet_choice, std::int64_t clock_ps,
                  Make make);

  void inject(std::int64_t time, std::uint64_t number, int source, int destination, std::int64_t bytes, int queue) override;
  bool advance(std::int64_t until) override;
  std::int64_t next_event() const override;

  std::size_t domains() const override { return next_ ? next_->domains() : 1; }
  const Shape& shape(std::size_t index) const override { return next_ ? next_->shape(index) : *shape_; }
  Statistics statistics(std::size_t index) const override;
  int copies() const override { return next_ ? next_->copies() : automorphisms_.count(); }
  std::int64_t clock_ps() const override { return clock_ps_; }
  Cycle now() const override { return next_ ? next_->now() : now_; }
  void watch(Watcher watcher) override;
  std::int64_t shared_windows() const override { return next_ ? next_->shared_windows() : domain_.shared_windows(); }
  std::string check() const override { return next_ ? next_->check() : domain_.check(); }

  void wake_senders() override;
  // The automorphisms by which it is still collapsed; nullptr: all NPUs are simulated.
  const Automorphisms* automorphisms() const;

 private:
  // A message of a node that was sent after a cycle had been run, as it is sent once more in the next network.
  struct Noted {
    Cycle cycle;
    std::int64_t bytes;
    int node;
    int address;
    int queue;
  };
  // A message under way: its place among those noted, and the numbers of its translates, by place.
  struct UnderWay {
    std::size_t noted = 0;
    std::vector<std::uint64_t> numbers;
  };

  // The domain does not represent all any more.
  struct Parting {
    std::vector<bool> still_collapsed;  // in the next network, by dimension
    Cycle known = -1;                   // all arrivals up to this cycle have been delivered
    bool catches_up = false;            // the next network has not come there yet
  };

  // The same as `advance` as long as the network is collapsed; nothing where it is no more.
  std::optional<bool> advance_quotient(std::int64_t until);
  // Runs a cycle of the domain, and adds its arrivals. Returns false if the domain cannot represent all any more.
  bool run(Cycle cycle);
  // Hands the messages of a cycle that has been run to their interfaces. Returns false where they are not alike.
  bool send_all(Cycle cycle);
  bool are_alike(const std::vector<Sent>& messages);
  Cycle next_cycle() const;
  // The domain does not represent all any more: those dimensions stay collapsed, and all arrivals up to a cycle are known.
  void part(std::vector<bool> collapsed, Cycle known);
  // The dimensions that can stay collapsed where messages are not alike, or take ways that are not.
  std::vector<bool> common_dimensions(const std::vector<Sent>& messages) const;
  // Goes over to the next network.
  void expand();

  std::shared_ptr<const Shape> shape_;
  Automorphisms automorphisms_;
  VnetChoice vnet_choice_;
  std::int64_t clock_ps_;
  Make make_;
  Domain domain_;
  SymmetricSends batch_;
  std::map<Cycle, std::vector<Sent>> later_;  // by cycle: messages that are sent when it has been run
  std::vector<Noted> noted_;
  std::vector<UnderWay> under_way_;  // a message's number in the domain is its place here
  std::vector<std::uint64_t> free_;
  std::vector<std::uint64_t> keys_;
  bool wake_senders_ = false;
  bool goes_by_distance_ = true;  // it may still go over to exclusive or
  Interruptible<kCyclesBetweenLooks> interruptible_;
  Watcher watcher_;
  Cycle now_ = -1;  // all cycles up to this one have been run
  std::optional<Parting> parting_;
  std::shared_ptr<MessageNetwork> next_;  // that goes on after it
};

}  // namespace astra::packet
