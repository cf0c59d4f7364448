// The jobs that wait in the queues of rules, in their order.
//
// The jobs of an NPU are a balanced tree (a treap), read from left to right. Every node sums up the part of the order below it, a span for
// each rule, so that the first job that a new one goes before is found on the way down. The trees of all NPUs share their nodes.
// A job has a mark for each rule: a key, by which it goes before others, and which of two kinds that take turns it is of.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "agreement.hpp"
#include "ids.hpp"

namespace astra::engine {

// The mark of a job: its key, and which of the two kinds that take turns it is of (1 or 2; 0: none).
struct Mark {
  Time key;
  std::uint8_t side;
};

// A queue of every NPU: for each the waiting jobs, in order.
class Waiting {
 public:
  using Tree = std::uint32_t;  // its root; kNone if nothing waits

  struct Entry {
    StepId step;
    Key key;
  };

  explicit Waiting(std::size_t rules) : rules_(rules) {}

  // The place of the first job whose key by a rule is above `limit` and before which one may go; else the number of jobs.
  std::uint32_t place(Tree tree, std::size_t rule, Time limit, bool first_stays) const;
  // Put something at a place; `marks` are its key and side by each rule. Returns its node.
  Tree insert(Tree& tree, std::uint32_t place, Entry entry, const std::vector<Mark>& marks);
  // Take out the first of a tree that is not empty.
  Entry pop(Tree& tree);
  // Take out a node.
  Entry take(Tree& tree, Tree node);

 private:
  // Neighbours as a rule sees them: the key of the first, the highest of the others before which a job may go, and the sides at the ends.
  // Whether a job may go before the first depends on the jobs in front of the span.
  struct Span {
    Time first, others;
    std::uint8_t first_side, last_side;
  };

  struct WaitingNode {
    Entry entry;
    std::uint32_t weight, size = 1;
    Tree left = kNone, right = kNone, above = kNone;
  };

  // Whether neighbours of these sides are of the two kinds that take turns.
  static bool take_turns(std::uint8_t one, std::uint8_t other) { return one + other == 3 && one && other; }
  // Whether a span behind a job of side `before` has a job of the wanted kind; not the first, if that is `closed`.
  static bool is_in(const Span& span, Time limit, std::uint8_t before, bool closed);
  // Two spans side by side as one.
  static Span join(const Span& left, const Span& right);
  std::uint32_t size(Tree tree) const { return tree == kNone ? 0 : nodes_[tree].size; }
  const Mark& mark(Tree node, std::size_t rule) const { return marks_[node * rules_ + rule]; }
  const Span& span(Tree node, std::size_t rule) const { return spans_[node * rules_ + rule]; }
  // A node of its own.
  Tree make(Entry entry, const std::vector<Mark>& marks);
  void set_root(Tree& tree, Tree root);
  // Sum up the subtree of a node.
  void update(Tree node);
  Tree insert(Tree node, std::uint32_t place, Tree result);
  // The jobs before a place, and the others.
  std::pair<Tree, Tree> split(Tree node, std::uint32_t place);
  // The tree without its first node.
  Tree pop(Tree node, Tree& first);
  // How many jobs are before a node.
  std::uint32_t place_of(Tree node) const;
  // The tree without the job at a place.
  Tree erase(Tree node, std::uint32_t place);
  // Jobs, and others behind them.
  Tree merge(Tree left, Tree right);

  std::size_t rules_;
  std::vector<WaitingNode> nodes_;
  std::vector<Mark> marks_;  // of each node, by each rule
  std::vector<Span> spans_;  // the same
  std::vector<Tree> free_;
  std::uint64_t random_ = 1;
};

}  // namespace astra::engine
