// Ctrl-C and progress within a long call of the core.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace astra::roce {

// Thrown where a handler of a signal, or a watcher, raised a Python exception, which stays set.
struct Interrupted {};

// Is told the time that a run has reached (ticks), with the interpreter lock held. Returns false where it set a Python exception.
using Watcher = std::function<bool(std::int64_t)>;

// Lets Python handle signals, and the watcher know, about every 0.2 seconds of a loop that calls `step`.
class Interruptible {
 public:
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

  void step(std::int64_t time) {
    if (++steps_ % kStepsBetweenLooks == 0) look(time);
  }

 private:
  static constexpr unsigned kStepsBetweenLooks = 1U << 14;

  void look(std::int64_t time);

  Watcher watcher_;
  unsigned steps_ = 0;
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

}  // namespace astra::roce
