// Separable allocators with round-robin arbiters: each side of a match has a pointer to the first candidate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/index.hpp"

namespace astra::packet {

struct Ask {
  int input = 0;
  int output = 0;
  int tag = 0;  // identifies the request, for the caller
};

// The initial pointers of the arbiters of outputs (over inputs) and of inputs (over outputs).
struct Pointers {
  int* of_output;
  int* of_input;
  int inputs;
  int outputs;

  // Behind those that are matched.
  void move_on(int input, int output) const {
    of_output[output] = input + 1 == inputs ? 0 : input + 1;
    of_input[input] = output + 1 == outputs ? 0 : output + 1;
  }
};

// The requests of a cycle, and which of them are granted.
//
// One iteration. Output first: every output grants, then every input accepts (iSLIP); input first: the other way round. Up to 64 inputs and
// outputs are kept as sets of bits.
class Matcher {
 public:
  explicit Matcher(bool input_first) : input_first_(input_first) {}

  // Requests of that many inputs and outputs follow.
  void begin(const Pointers& pointers) { small_ = pointers.inputs <= kSmall && pointers.outputs <= kSmall; }
  // Once for an input and output.
  [[gnu::always_inline]] void ask(int input, int output, int tag) {
    if (!small_) [[unlikely]] {
      asks_.push_back({input, output, tag});
      return;
    }
    const int first = input_first_ ? input : output;
    const int second = input_first_ ? output : input;
    firsts_ |= 1ULL << first;
    wanted_[first] |= 1ULL << second;
    tags_[first][second] = tag;
  }
  // The tag of the request of an input for an output, or nullptr. The latest requests were those of inputs from `from` on.
  [[gnu::always_inline]] int* find(int input, int output, int from) {
    if (!small_) [[unlikely]]
      return find_of_many(input, output, from);
    const int first = input_first_ ? input : output;
    const int second = input_first_ ? output : input;
    return (wanted_[first] >> second & 1) != 0 ? &tags_[first][second] : nullptr;
  }
  // Input first, after all other requests: whether the input has none of those. Then outputs choose it where no other input asks.
  bool comes_last(int input) {
    const std::size_t word = index(input) / 64;
    if (last_.size() <= word) last_.resize(word + 1);
    if (has_bit(last_.data(), input)) return true;
    const bool has_asked = small_ ? wanted_[input] != 0 : std::ranges::find(asks_, input, &Ask::input) != asks_.end();
    if (!has_asked) set_bit(last_.data(), input);
    return !has_asked;
  }
  bool empty() const { return firsts_ == 0 && asks_.empty(); }
  std::vector<Ask> asks() const {
    std::vector<Ask> result = asks_;
    each_bit(&firsts_, 1, [&](int first) { each_bit(&wanted_[first], 1, [&](int second) { result.push_back(ask_at(first, second)); }); });
    return result;
  }

  // Calls visit(ask) for those that are granted, and forgets all. Pointers move behind those that are matched.
  template <class Visit>
  [[gnu::always_inline]] void match(const Pointers& pointers, Visit visit) {
    if (small_) [[likely]]
      return match_bits(pointers, visit);
    for (const Ask& ask : match_many(pointers)) {
      pointers.move_on(ask.input, ask.output);
      visit(ask);
    }
  }

 private:
  static constexpr int kSmall = 64;
  static constexpr int kNone = 1 << 30;

  Ask ask_at(int first, int second) const {
    const int tag = tags_[first][second];
    return input_first_ ? Ask{first, second, tag} : Ask{second, first, tag};
  }

  // Matches come in order of the side that chooses second.
  template <class Visit>
  [[gnu::always_inline]] void match_bits(const Pointers& pointers, Visit visit) {
    const int* const first_pointers = input_first_ ? pointers.of_input : pointers.of_output;
    const int* const second_pointers = input_first_ ? pointers.of_output : pointers.of_input;
    std::uint64_t seconds = 0;
    for (std::uint64_t firsts = std::exchange(firsts_, 0); firsts != 0; firsts &= firsts - 1) {
      const int first = lowest(firsts);
      const int second = next_round(std::exchange(wanted_[first], 0), first_pointers[first]);
      offered_[second] |= 1ULL << first;
      seconds |= 1ULL << second;
    }
    const std::uint64_t last = std::exchange(last_.front(), 0);
    for (; seconds != 0; seconds &= seconds - 1) {
      const int second = lowest(seconds);
      const std::uint64_t offered = std::exchange(offered_[second], 0);
      const std::uint64_t others = offered & ~last;
      const Ask granted = ask_at(next_round(others != 0 ? others : offered, second_pointers[second]), second);
      pointers.move_on(granted.input, granted.output);
      visit(granted);
    }
  }

  [[gnu::noinline]] int* find_of_many(int input, int output, int from) {
    for (auto ask = asks_.rbegin(); ask != asks_.rend() && ask->input >= from; ++ask) {
      if (ask->input == input && ask->output == output) return &ask->tag;
    }
    return nullptr;
  }

  // The same of requests in any order, in which matches come too.
  [[gnu::noinline]] std::vector<Ask> match_many(Pointers pointers) {
    const std::size_t widest = index(std::max(pointers.inputs, pointers.outputs));
    if (nearest_.size() < widest) {
      nearest_.resize(widest, kNone);
      chosen_.resize(widest, kNone);
    }
    auto distance = [](int place, int pointer, int size) { return place >= pointer ? place - pointer : place - pointer + size; };
    auto behind = [&](int input) {
      return index(input) / 64 < last_.size() && has_bit(last_.data(), input) ? pointers.inputs : 0;  // all others
    };
    auto by_output = [&](const Ask& ask) {
      return distance(ask.input, pointers.of_output[ask.output], pointers.inputs) + behind(ask.input);
    };
    auto by_input = [&](const Ask& ask) { return distance(ask.output, pointers.of_input[ask.input], pointers.outputs); };
    auto first_of = [&](const Ask& ask) { return input_first_ ? ask.input : ask.output; };
    auto second_of = [&](const Ask& ask) { return input_first_ ? ask.output : ask.input; };
    auto first_distance = [&](const Ask& ask) { return input_first_ ? by_input(ask) : by_output(ask); };
    auto second_distance = [&](const Ask& ask) { return input_first_ ? by_output(ask) : by_input(ask); };
    for (const Ask& ask : asks_) {
      int& nearest = at(nearest_, first_of(ask));
      nearest = std::min(nearest, first_distance(ask));
    }
    for (const Ask& ask : asks_) {
      if (at(nearest_, first_of(ask)) != first_distance(ask)) continue;
      int& chosen = at(chosen_, second_of(ask));
      chosen = std::min(chosen, second_distance(ask));
    }
    std::vector<Ask> matched;
    for (const Ask& ask : asks_) {
      if (at(nearest_, first_of(ask)) == first_distance(ask) && at(chosen_, second_of(ask)) == second_distance(ask)) matched.push_back(ask);
    }
    for (const Ask& ask : asks_) at(nearest_, first_of(ask)) = at(chosen_, second_of(ask)) = kNone;
    asks_.clear();
    std::ranges::fill(last_, 0);
    return matched;
  }

  bool input_first_;
  bool small_ = true;
  std::uint64_t firsts_ = 0;            // of the side that chooses first: who has a request,
  std::uint64_t wanted_[kSmall]{};      // and for whom
  std::uint64_t offered_[kSmall]{};     // by the other side: who chose it
  int tags_[kSmall][kSmall]{};          // of requests, by both
  std::vector<std::uint64_t> last_{0};  // inputs that outputs choose last
  std::vector<Ask> asks_;               // where there are more inputs or outputs
  std::vector<int> nearest_;            // by the side that chooses first: distance of the nearest
  std::vector<int> chosen_;             // by the other side
};

}  // namespace astra::packet
