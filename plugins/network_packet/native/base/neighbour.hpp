// A reference from one part of a domain to another.
//
// Assigning a part to another one of the same form hands over its state. The parts that it speaks with stay its own, so that a copy of a
// domain is a domain by itself.
#pragma once

namespace astra::packet {

template <class Part>
class Neighbour {
 public:
  Neighbour(Part& part) : part_(&part) {}
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) { return *this; }

  Part* operator->() const { return part_; }
  Part& operator*() const { return *part_; }

 private:
  Part* part_;
};

}  // namespace astra::packet
