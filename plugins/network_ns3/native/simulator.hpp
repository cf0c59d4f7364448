// SPDX-License-Identifier: GPL-2.0-only
// ns-3's simulator, of which a process has one. Whoever holds a lease has it, until another takes it.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace astra::tcp {

class Lease {
 public:
  // Takes the simulator, at time 0 and with random numbers from a seed. `give_back` is called before it is destroyed.
  Lease(std::uint32_t seed, std::function<void()> give_back);
  ~Lease() { end(); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  bool holds() const { return holder_ == this; }

  // Destroys the simulation, if this is the holder.
  void end();

 private:
  static Lease* holder_;
  std::function<void()> give_back_;
};

}  // namespace astra::tcp
