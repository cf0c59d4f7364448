// Which instance takes a request: routers.py of Python.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "instance.hpp"
#include "random_stream.hpp"

namespace astra::serving {

using Takers = std::vector<Instance*>;
// A router in Python: the place of an instance in a list of their numbers, for the request of a number.
using Chooser = std::function<std::size_t(Number, const std::vector<Number>&)>;

class Router {
 public:
  // `chooser` routes if `policy` is "chosen".
  Router(const std::string& policy, double prefix_beta, RandomStream stream, Chooser chooser = nullptr);

  Instance& choose(const Sequence& sequence, const Takers& takers) const { return *takers.at(place_(sequence, takers)); }

 private:
  std::function<std::size_t(const Sequence&, const Takers&)> place_;
};

}  // namespace astra::serving
