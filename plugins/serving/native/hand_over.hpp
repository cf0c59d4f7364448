// Sequences that go from instances for prompts to those for answers: fleet.HandOver of Python.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agenda.hpp"
#include "router.hpp"
#include "transfers.hpp"

namespace astra::serving {

class HandOver {
 public:
  HandOver(Agenda& agenda, std::shared_ptr<Transfers> transfers, Router router)
      : agenda_(agenda), transfers_(std::move(transfers)), router_(std::move(router)) {}

  // Send what an iteration computes until `end` layer by layer, if layers are sent so: to the receivers that have blocks. `receivers` has
  // those of the sender's model.
  void stream(Instance& sender, std::optional<double> end, const Takers& receivers);
  // Take a sequence out of the running ones of its instance, which keeps its blocks until they are sent.
  void take(Sequence& sequence, Instance& sender, const Takers& receivers);
  // Grant the blocks for which an instance has room, in the order in which they were asked for, and begin these transfers.
  void adopt(Instance& receiver);
  // The transfer of a sequence has ended.
  void transferred(Sequence& sequence);
  // Let the network that transfers share go on up to the next event that may begin others.
  void advance();

 private:
  // A sequence on its way; its receiver has its blocks, those of `claim`, when it is granted.
  struct Way {
    Sequence* sequence;
    Instance* sender;
    Instance* receiver;
    Sequence claim;
    bool is_granted = false;
    bool is_computed = false;
    std::vector<PromptChunk> chunks;  // computed before that
    Tokens seen = 0;                  // tokens in some chunk

    TransferPath route() const { return {sequence->number, sender->number(), receiver->number()}; }
  };

  Way& way(Sequence& sequence, Instance& sender, const Takers& receivers);
  void take_back(const Sequence& sequence);
  void close(const Way& way);

  Agenda& agenda_;
  std::shared_ptr<Transfers> transfers_;
  Router router_;
  std::unordered_map<Number, Way> under_way_;
};

}  // namespace astra::serving
