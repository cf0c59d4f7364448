// Ctrl-C and progress within long calls of networks in C++ (C++20, in a module of Python).
#pragma once

#include <Python.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>

namespace astra {

// Thrown where a handler of a signal, or a watcher, raised a Python exception, which stays set.
struct Interrupted {};

// Called with the time that a loop has reached, with the interpreter lock held. Returns false if it set a Python exception.
using Watcher = std::function<bool(std::int64_t)>;

// Lets Python handle signals, and the watcher know, about every 0.2 seconds of a loop; the clock is read every `kStepsBetweenLooks` steps.
template <unsigned kStepsBetweenLooks>
class Interruptible {
 public:
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

  // A step of the loop. Throws Interrupted.
  void step(std::int64_t time) {
    if (raises(time)) throw Interrupted{};
  }

  // The same for loops through which nothing may be thrown: whether a Python exception has been raised.
  bool raises(std::int64_t time) { return ++steps_ % kStepsBetweenLooks == 0 && look(time); }

 private:
  bool look(std::int64_t time) {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < std::chrono::milliseconds(200)) return false;
    looked_ = now;
    // Only a thread that Python knows can be given an exception.
    if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return false;
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool raised = PyErr_CheckSignals() != 0 || (watcher_ && !watcher_(time));
    PyGILState_Release(state);
    return raised;
  }

  Watcher watcher_;
  unsigned steps_ = 0;
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

// Memory ran out in a function through which nothing may be thrown: MemoryError is set, if this thread is one of Python's.
inline void set_out_of_memory() {
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyErr_NoMemory();
  PyGILState_Release(state);
}

// Runs `action` for a function of a network function table. Returns 0, or -1 if it throws: the exception becomes the error text.
template <class Action>
int guarded(std::string& error, Action&& action) {
  try {
    action();
    return 0;
  } catch (const Interrupted&) {
    error = "interrupted";  // and the Python exception is set
    return -1;
  } catch (const std::bad_alloc&) {
    error = "memory ran out";
    set_out_of_memory();
    return -1;
  } catch (const std::exception& thrown) {
    error = thrown.what();
    return -1;
  }
}

}  // namespace astra
