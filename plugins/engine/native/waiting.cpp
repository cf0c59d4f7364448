#include "waiting.hpp"

#include <algorithm>
#include <tuple>

namespace astra::engine {

std::uint32_t Waiting::place(Tree tree, std::size_t rule, Time limit, bool first_stays) const {
  std::uint8_t before = 0;
  bool closed = first_stays;
  if (tree == kNone || !is_in(span(tree, rule), limit, before, closed)) return size(tree);
  std::uint32_t place = 0;
  for (Tree node = tree; node != kNone; node = nodes_[node].right) {
    for (Tree left = nodes_[node].left; left != kNone; left = nodes_[node].left) {
      if (!is_in(span(left, rule), limit, before, closed)) {
        place += nodes_[left].size;
        before = span(left, rule).last_side;
        closed = false;
        break;
      }
      node = left;
    }
    const Mark& own = mark(node, rule);
    if (own.key > limit && !closed && !take_turns(before, own.side)) return place;
    ++place;
    before = own.side;
    closed = false;
  }
  return place;
}

Waiting::Tree Waiting::insert(Tree& tree, std::uint32_t place, Entry entry, const std::vector<Mark>& marks) {
  const Tree result = make(entry, marks);
  set_root(tree, insert(tree, place, result));
  return result;
}

Waiting::Entry Waiting::pop(Tree& tree) {
  Tree first = kNone;
  set_root(tree, pop(tree, first));
  free_.push_back(first);
  return nodes_[first].entry;
}

Waiting::Entry Waiting::take(Tree& tree, Tree node) {
  set_root(tree, erase(tree, place_of(node)));
  free_.push_back(node);
  return nodes_[node].entry;
}

void Waiting::set_root(Tree& tree, Tree root) {
  tree = root;
  if (root != kNone) nodes_[root].above = kNone;
}

bool Waiting::is_in(const Span& span, Time limit, std::uint8_t before, bool closed) {
  return span.others > limit || (span.first > limit && !closed && !take_turns(before, span.first_side));
}

Waiting::Span Waiting::join(const Span& left, const Span& right) {
  Time others = std::max(left.others, right.others);
  if (!take_turns(left.last_side, right.first_side)) others = std::max(others, right.first);
  return {left.first, others, left.first_side, right.last_side};
}

Waiting::Tree Waiting::make(Entry entry, const std::vector<Mark>& marks) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  Tree node;
  if (free_.empty()) {
    node = next_id(nodes_);
    nodes_.emplace_back();
    marks_.resize(marks_.size() + rules_);
    spans_.resize(marks_.size());
  } else {
    node = free_.back();
    free_.pop_back();
  }
  nodes_[node] = {entry, narrow<std::uint32_t>(random_ >> 32)};
  std::copy(marks.begin(), marks.end(), &marks_[node * rules_]);
  update(node);
  return node;
}

void Waiting::update(Tree node) {
  const Tree left = nodes_[node].left, right = nodes_[node].right;
  nodes_[node].size = 1 + size(left) + size(right);
  if (left != kNone) nodes_[left].above = node;
  if (right != kNone) nodes_[right].above = node;
  for (std::size_t rule = 0; rule < rules_; ++rule) {
    const Mark& own = mark(node, rule);
    Span sum{own.key, INT64_MIN, own.side, own.side};
    if (left != kNone) sum = join(span(left, rule), sum);
    if (right != kNone) sum = join(sum, span(right, rule));
    spans_[node * rules_ + rule] = sum;
  }
}

Waiting::Tree Waiting::insert(Tree node, std::uint32_t place, Tree result) {
  if (node == kNone) return result;
  if (nodes_[result].weight > nodes_[node].weight) {
    std::tie(nodes_[result].left, nodes_[result].right) = split(node, place);
    update(result);
    return result;
  }
  const std::uint32_t before = size(nodes_[node].left);
  if (place <= before) {
    nodes_[node].left = insert(nodes_[node].left, place, result);
  } else {
    nodes_[node].right = insert(nodes_[node].right, place - before - 1, result);
  }
  update(node);
  return node;
}

std::pair<Waiting::Tree, Waiting::Tree> Waiting::split(Tree node, std::uint32_t place) {
  if (node == kNone) return {kNone, kNone};
  const std::uint32_t before = size(nodes_[node].left);
  std::pair<Tree, Tree> parts;
  if (place <= before) {
    parts = split(nodes_[node].left, place);
    nodes_[node].left = std::exchange(parts.second, node);
  } else {
    parts = split(nodes_[node].right, place - before - 1);
    nodes_[node].right = std::exchange(parts.first, node);
  }
  update(node);
  return parts;
}

Waiting::Tree Waiting::pop(Tree node, Tree& first) {
  if (nodes_[node].left == kNone) {
    first = node;
    return nodes_[node].right;
  }
  nodes_[node].left = pop(nodes_[node].left, first);
  update(node);
  return node;
}

std::uint32_t Waiting::place_of(Tree node) const {
  std::uint32_t place = size(nodes_[node].left);
  for (Tree above = nodes_[node].above; above != kNone; node = above, above = nodes_[node].above) {
    if (nodes_[above].right == node) place += size(nodes_[above].left) + 1;
  }
  return place;
}

Waiting::Tree Waiting::erase(Tree node, std::uint32_t place) {
  const std::uint32_t before = size(nodes_[node].left);
  if (place == before) return merge(nodes_[node].left, nodes_[node].right);
  if (place < before) {
    nodes_[node].left = erase(nodes_[node].left, place);
  } else {
    nodes_[node].right = erase(nodes_[node].right, place - before - 1);
  }
  update(node);
  return node;
}

Waiting::Tree Waiting::merge(Tree left, Tree right) {
  if (left == kNone || right == kNone) return left == kNone ? right : left;
  if (nodes_[left].weight > nodes_[right].weight) {
    nodes_[left].right = merge(nodes_[left].right, right);
    update(left);
    return left;
  }
  nodes_[right].left = merge(left, nodes_[right].left);
  update(right);
  return right;
}

}  // namespace astra::engine
