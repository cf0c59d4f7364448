// SPDX-License-Identifier: GPL-2.0-only
#include "interrupt.hpp"

#include <Python.h>

namespace astra::tcp {

bool Interruptible::look(std::int64_t time) {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < std::chrono::milliseconds(200)) return raised_;
  looked_ = now;
  // Only a thread that Python knows can be given an exception.
  if (raised_ || Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return raised_;
  const PyGILState_STATE state = PyGILState_Ensure();
  raised_ = PyErr_CheckSignals() != 0 || (watcher_ && !watcher_(time));
  PyGILState_Release(state);
  return raised_;
}

}  // namespace astra::tcp
