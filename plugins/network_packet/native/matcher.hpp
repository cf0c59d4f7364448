// Separable allocators with round-robin arbiters: each side of a match has a pointer that says where to look first.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "bits.hpp"

namespace astra::packet {

struct Ask {
  int input = 0;
  int output = 0;
  int tag = 0;  // what is asked for, for the caller
};

// Where the arbiters of outputs (over inputs) and of inputs (over outputs) start.
struct Pointers {
  std::vector<int> of_output;
  std::vector<int> of_input;

  void resize(int inputs, int outputs) {
    of_output.assign(static_cast<std::size_t>(outputs), 0);
    of_input.assign(static_cast<std::size_t>(inputs), 0);
  }
};

class Matcher {
 public:
  // One iteration. Output first: every output grants, then every input accepts (iSLIP); input first: the other way round. Pointers
  // move behind those that are matched.
  void match(const std::vector<Ask>& asks, Pointers& pointers, bool input_first, std::vector<Ask>& matched) {
    const int inputs = static_cast<int>(pointers.of_input.size());
    const int outputs = static_cast<int>(pointers.of_output.size());
    if (asks.size() == 1) {
      matched.push_back(asks.front());
      move_on(matched, pointers, inputs, outputs);
      return;
    }
    if (inputs <= 64 && outputs <= 64) {
      match_bits(asks, pointers, input_first, matched);
      return;
    }
    const std::size_t widest = static_cast<std::size_t>(std::max(inputs, outputs));
    if (first_.size() < widest) {
      first_.resize(widest, kNone);
      second_.resize(widest, kNone);
    }
    auto by_output = [&](const Ask& ask) { return distance(ask.input, pointers.of_output[at(ask.output)], inputs); };
    auto by_input = [&](const Ask& ask) { return distance(ask.output, pointers.of_input[at(ask.input)], outputs); };
    if (input_first) {
      choose(asks, by_input, [](const Ask& a) { return a.input; }, by_output, [](const Ask& a) { return a.output; }, matched);
    } else {
      choose(asks, by_output, [](const Ask& a) { return a.output; }, by_input, [](const Ask& a) { return a.input; }, matched);
    }
    move_on(matched, pointers, inputs, outputs);
  }

 private:
  static constexpr int kNone = 1 << 30;

  // The same with sets of up to 64 numbers. Matches come in order of the side that chooses second.
  void match_bits(const std::vector<Ask>& asks, Pointers& pointers, bool input_first, std::vector<Ask>& matched) {
    std::vector<int>& first_pointers = input_first ? pointers.of_input : pointers.of_output;
    std::vector<int>& second_pointers = input_first ? pointers.of_output : pointers.of_input;
    const int firsts = static_cast<int>(first_pointers.size());
    const int seconds = static_cast<int>(second_pointers.size());
    std::uint64_t first_sides = 0;
    for (int i = 0; i < static_cast<int>(asks.size()); ++i) {
      const int first = input_first ? asks[at(i)].input : asks[at(i)].output;
      const int second = input_first ? asks[at(i)].output : asks[at(i)].input;
      wanted_[at(first)] |= 1ULL << second;
      place_[at(first * seconds + second)] = i;
      first_sides |= 1ULL << first;
    }
    std::uint64_t second_sides = 0;
    for (; first_sides != 0; first_sides &= first_sides - 1) {
      const int first = std::countr_zero(first_sides);
      const int second = next_round(std::exchange(wanted_[at(first)], 0), first_pointers[at(first)]);
      offered_[at(second)] |= 1ULL << first;
      second_sides |= 1ULL << second;
    }
    for (; second_sides != 0; second_sides &= second_sides - 1) {
      const int second = std::countr_zero(second_sides);
      const int first = next_round(std::exchange(offered_[at(second)], 0), second_pointers[at(second)]);
      first_pointers[at(first)] = second + 1 == seconds ? 0 : second + 1;
      second_pointers[at(second)] = first + 1 == firsts ? 0 : first + 1;
      matched.push_back(asks[at(place_[at(first * seconds + second)])]);
    }
  }

  static void move_on(const std::vector<Ask>& matched, Pointers& pointers, int inputs, int outputs) {
    for (const Ask& ask : matched) {
      pointers.of_output[at(ask.output)] = ask.input + 1 == inputs ? 0 : ask.input + 1;
      pointers.of_input[at(ask.input)] = ask.output + 1 == outputs ? 0 : ask.output + 1;
    }
  }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static int distance(int place, int pointer, int size) { return place >= pointer ? place - pointer : place - pointer + size; }

  template <class FirstDistance, class FirstKey, class SecondDistance, class SecondKey>
  void choose(const std::vector<Ask>& asks, FirstDistance first_distance, FirstKey first_key, SecondDistance second_distance,
              SecondKey second_key, std::vector<Ask>& matched) {
    for (const Ask& ask : asks) {
      int& best = first_[at(first_key(ask))];
      best = std::min(best, first_distance(ask));
    }
    for (const Ask& ask : asks) {
      if (first_[at(first_key(ask))] != first_distance(ask)) continue;
      int& best = second_[at(second_key(ask))];
      best = std::min(best, second_distance(ask));
    }
    for (const Ask& ask : asks) {
      if (first_[at(first_key(ask))] == first_distance(ask) && second_[at(second_key(ask))] == second_distance(ask)) {
        matched.push_back(ask);
      }
    }
    for (const Ask& ask : asks) first_[at(first_key(ask))] = second_[at(second_key(ask))] = kNone;
  }

  std::array<std::uint64_t, 64> wanted_{};   // by the side that chooses first: who asks
  std::array<std::uint64_t, 64> offered_{};  // by the other side: who chose it
  std::array<int, 4096> place_{};            // of an ask, by both
  std::vector<int> first_;                   // by the side that chooses first: distance of the nearest
  std::vector<int> second_;                  // by the other side
};

}  // namespace astra::packet
