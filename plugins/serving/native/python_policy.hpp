// A policy in Python, asked for the plans of compiled instances: policies_in_core.py.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "policies.hpp"

namespace astra::serving {

class PythonPolicy final : public Policy {
 public:
  // `plan` takes the time, the free blocks, and the states of running and waiting requests, and returns what the policy answers. `checked`
  // takes an answer that is not a list of tuples of good numbers, and returns one, or raises why not. `state` is the class of a request's
  // state, `fields` has the names of its slots in order.
  PythonPolicy(nanobind::callable plan, nanobind::callable checked, nanobind::callable keeps, nanobind::type_object state,
               nanobind::tuple fields)
      : plan_(std::move(plan)),
        checked_(std::move(checked)),
        keeps_(std::move(keeps)),
        type_(std::move(state)),
        fields_(std::move(fields)) {
    allocate_ = reinterpret_cast<allocfunc>(PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type_.ptr()), Py_tp_alloc));
  }

  Batch plan(const State& state) override {
    here_.clear();
    nanobind::list running, waiting;
    for (Sequence* each : state.running) running.append(described(*each, state.now, true, 0));
    for (std::size_t place = 0; place < state.waiting.size(); ++place) {
      Sequence& each = *state.waiting[place];
      waiting.append(described(each, state.now, false, place < kLookedUp ? state.cache.match_tokens(each) : 0));
    }
    const nanobind::object answer = plan_(state.now, state.free_blocks(), running, waiting);
    Batch result;
    if (!read(answer, state.limits.tokens, result) && !read(checked_(answer), state.limits.tokens, result)) {
      throw std::invalid_argument("the plan of a policy is no list of numbers and tokens");
    }
    return result;
  }

  bool keeps(bool) override { return nanobind::cast<bool>(keeps_()); }

 private:
  struct Here {
    Sequence* sequence;
    bool is_planned;
  };

  // The batch of an answer; false unless it is a list that keeps the contract of policies.
  bool read(nanobind::handle answer, std::int64_t left, Batch& batch) {
    batch.clear();
    for (auto& each : here_) each.second.is_planned = false;
    if (!PyList_Check(answer.ptr())) return false;
    for (nanobind::handle entry : nanobind::borrow<nanobind::list>(answer)) {
      if (!PyTuple_Check(entry.ptr()) || PyTuple_Size(entry.ptr()) != 2) return false;
      PyObject* const number = PyTuple_GetItem(entry.ptr(), 0);
      PyObject* const tokens = PyTuple_GetItem(entry.ptr(), 1);
      if (!PyLong_CheckExact(number) || !PyLong_CheckExact(tokens)) return false;
      int overflow = 0, overflow_of_tokens = 0;
      const std::int64_t which = PyLong_AsLongLongAndOverflow(number, &overflow);
      const std::int64_t count = PyLong_AsLongLongAndOverflow(tokens, &overflow_of_tokens);
      const auto here = overflow || overflow_of_tokens ? here_.end() : here_.find(which);
      if (here == here_.end() || here->second.is_planned || count < 1 || count > here->second.sequence->missing()) return false;
      here->second.is_planned = true;
      left -= count;
      batch.emplace_back(here->second.sequence, static_cast<Tokens>(count));
    }
    return left >= 0 && !batch.empty();
  }

  // The state of a request, made without the class's own way, which takes several times as long.
  nanobind::object described(Sequence& each, double now, bool is_running, std::int64_t cached) {
    here_[each.number] = {&each, false};
    PyObject* const state = allocate_(reinterpret_cast<PyTypeObject*>(type_.ptr()), 0);
    if (!state) throw nanobind::python_error();
    const nanobind::object result = nanobind::steal(state);
    std::size_t field = 0;
    for (const std::int64_t value : {std::int64_t{each.number}, std::int64_t{each.input}, std::int64_t{each.generated},
                                     std::int64_t{each.computed}, std::int64_t{each.missing()}, each.priority}) {
      set(state, field++, PyLong_FromLongLong(value));
    }
    set(state, field++, PyFloat_FromDouble(now - each.arrival));
    set(state, field++, PyLong_FromLong(each.preemptions));
    set(state, field++, PyBool_FromLong(is_running));
    set(state, field++, PyLong_FromLong(each.max_new_tokens));
    set(state, field++, PyLong_FromLongLong(cached));
    return result;
  }

  void set(PyObject* state, std::size_t field, PyObject* value) {
    if (!value) throw nanobind::python_error();
    const nanobind::object held = nanobind::steal(value);
    if (PyObject_GenericSetAttr(state, nanobind::handle(fields_[field]).ptr(), value)) throw nanobind::python_error();
  }

  nanobind::callable plan_;
  nanobind::callable checked_;
  nanobind::callable keeps_;
  nanobind::type_object type_;
  nanobind::tuple fields_;
  allocfunc allocate_;
  std::unordered_map<std::int64_t, Here> here_;
};

}  // namespace astra::serving
