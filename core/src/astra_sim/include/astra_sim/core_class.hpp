// The common Python class of compiled networks in every module: its function table, and its progress watcher (C++20, nanobind).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <astra_sim/interrupt.hpp>
#include <astra_sim/table_owner.hpp>
#include <memory>
#include <utility>

namespace astra {

// A watcher that calls `tell` with the time reached; an empty one where `tell` is None. It holds a `Reference` to it: nanobind::object, or
// nanobind::handle where the watcher may be destroyed without the interpreter lock, and `tell` outlives it.
template <class Reference = nanobind::object>
Watcher watcher_of(const nanobind::object& tell, std::int64_t time_unit = 1) {
  if (tell.is_none()) return {};
  return [tell = Reference(tell), time_unit](std::int64_t time) {
    try {
      tell(time * time_unit);
      return true;
    } catch (nanobind::python_error& error) {
      error.restore();
      return false;
    }
  };
}

// Adds `function_table` and `watch`, by which CompiledNetwork of astra_sim.function_table uses a core. The network has the functions of
// TableOwner; if calls may be long also `watch(Watcher)`, whose times count in units of `watched_unit_ps()` if it has that.
template <class Class>
Class& add_core_functions(Class& core) {
  using Network = typename Class::Type;
  core.def(
      "function_table",
      [](std::shared_ptr<Network> network) {
        PyObject* const capsule = TableOwner<Network>::capsule_of(std::move(network));
        if (capsule == nullptr) nanobind::raise_python_error();
        return nanobind::steal(capsule);
      },
      "A capsule with the network function table of astra_sim/network.h.");
  core.def(
      "watch",
      [](Network& network, const nanobind::object& tell) {
        std::int64_t unit = 1;
        if constexpr (requires { network.watched_unit_ps(); }) unit = network.watched_unit_ps();
        if constexpr (requires { network.watch(Watcher{}); }) network.watch(watcher_of(tell, unit));
      },
      nanobind::arg("tell").none(), "Call `tell` with the time reached (ps), now and then within a long call.");
  return core;
}

}  // namespace astra
