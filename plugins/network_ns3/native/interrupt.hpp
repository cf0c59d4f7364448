// SPDX-License-Identifier: GPL-2.0-only
// Ctrl-C and progress within a long call of the core.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace astra::tcp {

// Thrown where a handler of a signal, or a watcher, raised a Python exception, which stays set.
struct Interrupted {};

// Is told the time that a run has reached (ps), with the interpreter lock held. Returns false where it set a Python exception.
using Watcher = std::function<bool(std::int64_t)>;

// Lets Python handle signals, and the watcher know, about every 0.2 seconds of a simulation that calls `step`.
class Interruptible {
 public:
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

  // Returns whether an exception has been raised: then the simulation is to stop.
  bool step(std::int64_t time) { return ++steps_ % kStepsBetweenLooks == 0 && look(time); }

  bool raised() const { return raised_; }

 private:
  static constexpr unsigned kStepsBetweenLooks = 1U << 10;

  bool look(std::int64_t time);

  Watcher watcher_;
  unsigned steps_ = 0;
  bool raised_ = false;
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

}  // namespace astra::tcp
