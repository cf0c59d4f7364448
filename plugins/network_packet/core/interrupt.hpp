// Ctrl-C within a long call of the core.
#pragma once

#include <chrono>

namespace astra::packet {

// Thrown where a handler of a signal raised a Python exception, which stays set.
struct Interrupted {};

// Lets Python handle signals about every 0.2 seconds of a loop that calls `step`.
class Interruptible {
public:
    void step() {
        if (++steps_ % kStepsBetweenLooks == 0) look();
    }

private:
    static constexpr unsigned kStepsBetweenLooks = 256;  // cycles, each of which takes microseconds

    void look();

    unsigned steps_ = 0;
    std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

}  // namespace astra::packet
