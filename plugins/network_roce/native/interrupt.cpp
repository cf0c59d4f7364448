#include "interrupt.hpp"

#include <Python.h>

namespace astra::roce {

void Interruptible::look(std::int64_t time) {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < std::chrono::milliseconds(200)) return;
  looked_ = now;
  // Only a thread that Python knows can be given an exception.
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0 || (watcher_ && !watcher_(time));
  PyGILState_Release(state);
  if (raised) throw Interrupted{};
}

}  // namespace astra::roce
