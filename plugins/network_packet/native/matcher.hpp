// Separable allocators with round-robin arbiters: each side of a match has a pointer that says where to look first.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "bits.hpp"
#include "index.hpp"

namespace astra::packet {

struct Ask {
  int input = 0;
  int output = 0;
  int tag = 0;  // what is asked for, for the caller
  bool speculative = false;
};

// Where the arbiters of outputs (over inputs) and of inputs (over outputs) start.
struct Pointers {
  std::vector<int> of_output;
  std::vector<int> of_input;

  void resize(int inputs, int outputs) {
    of_output.assign(index(outputs), 0);
    of_input.assign(index(inputs), 0);
  }
};

class Matcher {
 public:
  // One iteration. Output first: every output grants, then every input accepts (iSLIP); input first: the other way round, and both
  // sides choose speculative requests only where there are no others, of which iSLIP knows nothing. Pointers move behind those that are
  // matched.
  void match(const std::vector<Ask>& asks, Pointers& pointers, bool input_first, std::vector<Ask>& matched) {
    const int inputs = count_of(pointers.of_input);
    const int outputs = count_of(pointers.of_output);
    if (inputs <= 64 && outputs <= 64) {
      if (are_apart(asks, input_first)) {
        matched = asks;
        move_on(matched, pointers, inputs, outputs);
        return;
      }
      if (!input_first || std::ranges::none_of(asks, &Ask::speculative)) {
        match_bits(asks, pointers, input_first, matched);
        return;
      }
    }
    const std::size_t widest = index(std::max(inputs, outputs));
    if (first_.size() < widest) {
      first_.resize(widest, kNone);
      second_.resize(widest, kNone);
    }
    const auto behind = [&](const Ask& ask, int others) { return input_first && ask.speculative ? others : 0; };
    auto by_output = [&](const Ask& ask) { return distance(ask.input, at(pointers.of_output, ask.output), inputs) + behind(ask, inputs); };
    auto by_input = [&](const Ask& ask) { return distance(ask.output, at(pointers.of_input, ask.input), outputs) + behind(ask, outputs); };
    if (input_first) {
      choose(asks, by_input, [](const Ask& a) { return a.input; }, by_output, [](const Ask& a) { return a.output; }, matched);
    } else {
      choose(asks, by_output, [](const Ask& a) { return a.output; }, by_input, [](const Ask& a) { return a.input; }, matched);
    }
    move_on(matched, pointers, inputs, outputs);
  }

 private:
  static constexpr int kNone = 1 << 30;

  // No two ask for one output, nor by one input, and they stand in order of the side that chooses second.
  static bool are_apart(const std::vector<Ask>& asks, bool input_first) {
    std::uint64_t inputs = 0;
    std::uint64_t outputs = 0;
    for (const Ask& ask : asks) {
      const std::uint64_t input = 1ULL << ask.input;
      const std::uint64_t output = 1ULL << ask.output;
      const bool in_order = input_first ? outputs < output : inputs < input;
      if ((inputs & input) != 0 || (outputs & output) != 0 || !in_order) return false;
      inputs |= input;
      outputs |= output;
    }
    return true;
  }

  // The same with sets of up to 64 numbers. Matches come in order of the side that chooses second.
  void match_bits(const std::vector<Ask>& asks, Pointers& pointers, bool input_first, std::vector<Ask>& matched) {
    std::vector<int>& first_pointers = input_first ? pointers.of_input : pointers.of_output;
    std::vector<int>& second_pointers = input_first ? pointers.of_output : pointers.of_input;
    const int firsts = count_of(first_pointers);
    const int seconds = count_of(second_pointers);
    std::uint64_t first_sides = 0;
    for (int i = 0; i < count_of(asks); ++i) {
      const int first = input_first ? at(asks, i).input : at(asks, i).output;
      const int second = input_first ? at(asks, i).output : at(asks, i).input;
      at(wanted_, first) |= 1ULL << second;
      at(place_, first * seconds + second) = i;
      first_sides |= 1ULL << first;
    }
    std::uint64_t second_sides = 0;
    for (; first_sides != 0; first_sides &= first_sides - 1) {
      const int first = std::countr_zero(first_sides);
      const int second = next_round(std::exchange(at(wanted_, first), 0), at(first_pointers, first));
      at(offered_, second) |= 1ULL << first;
      second_sides |= 1ULL << second;
    }
    for (; second_sides != 0; second_sides &= second_sides - 1) {
      const int second = std::countr_zero(second_sides);
      const int first = next_round(std::exchange(at(offered_, second), 0), at(second_pointers, second));
      at(first_pointers, first) = second + 1 == seconds ? 0 : second + 1;
      at(second_pointers, second) = first + 1 == firsts ? 0 : first + 1;
      matched.push_back(at(asks, at(place_, first * seconds + second)));
    }
  }

  static void move_on(const std::vector<Ask>& matched, Pointers& pointers, int inputs, int outputs) {
    for (const Ask& ask : matched) {
      at(pointers.of_output, ask.output) = ask.input + 1 == inputs ? 0 : ask.input + 1;
      at(pointers.of_input, ask.input) = ask.output + 1 == outputs ? 0 : ask.output + 1;
    }
  }

  static int distance(int place, int pointer, int size) { return place >= pointer ? place - pointer : place - pointer + size; }

  template <class FirstDistance, class FirstKey, class SecondDistance, class SecondKey>
  void choose(const std::vector<Ask>& asks, FirstDistance first_distance, FirstKey first_key, SecondDistance second_distance,
              SecondKey second_key, std::vector<Ask>& matched) {
    for (const Ask& ask : asks) {
      int& best = at(first_, first_key(ask));
      best = std::min(best, first_distance(ask));
    }
    for (const Ask& ask : asks) {
      if (at(first_, first_key(ask)) != first_distance(ask)) continue;
      int& best = at(second_, second_key(ask));
      best = std::min(best, second_distance(ask));
    }
    for (const Ask& ask : asks) {
      if (at(first_, first_key(ask)) == first_distance(ask) && at(second_, second_key(ask)) == second_distance(ask)) {
        matched.push_back(ask);
      }
    }
    for (const Ask& ask : asks) at(first_, first_key(ask)) = at(second_, second_key(ask)) = kNone;
  }

  std::array<std::uint64_t, 64> wanted_{};   // by the side that chooses first: who asks
  std::array<std::uint64_t, 64> offered_{};  // by the other side: who chose it
  std::array<int, 4096> place_{};            // of an ask, by both
  std::vector<int> first_;                   // by the side that chooses first: distance of the nearest, speculative ones behind all others
  std::vector<int> second_;                  // by the other side
};

}  // namespace astra::packet
