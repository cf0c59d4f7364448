#include "timing/thread_team.hpp"

#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace astra::packet {

namespace {

// A window of a network is short: a waiting thread polls this many times, up to some twenty microseconds, before it lets the system wake
// it.
constexpr int kLooks = 400;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Value>
void wait_while(const std::atomic<Value>& watched, Value same) {
  for (int look = 0; look < kLooks; ++look) {
    if (watched.load(std::memory_order_acquire) != same) return;
    pause();
  }
  watched.wait(same, std::memory_order_acquire);
}

long this_process() {
#if defined(__unix__) || defined(__APPLE__)
  return getpid();
#else
  return 0;  // no process is a fork of another
#endif
}

}  // namespace

ThreadTeam::ThreadTeam(int threads) : process_(this_process()) {
  try {
    for (int thread = 1; thread < threads; ++thread) threads_.emplace_back([this, thread] { wait_for_jobs(thread); });
  } catch (...) {
    end();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { end(); }

void ThreadTeam::end() {
  if (process_ != this_process()) {
    // A fork of the process that made the team has none of the threads, and has given back their stacks: to join or detach one is a
    // segmentation fault, so they are left alone.
    new std::vector<std::thread>(std::move(threads_));
    return;
  }
  ends_ = true;
  start();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::start() {
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
}

void ThreadTeam::finish() {
  for (int busy = busy_.load(std::memory_order_acquire); busy > 0; busy = busy_.load(std::memory_order_acquire)) wait_while(busy_, busy);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadTeam::work(int thread) noexcept {
  try {
    call_(job_, thread);
  } catch (...) {
    const std::lock_guard<std::mutex> locked(guard_);
    thrown_ = std::current_exception();
  }
}

void ThreadTeam::wait_for_jobs(int thread) {
  for (std::uint32_t done = 0;; ++done) {
    while (jobs_.load(std::memory_order_acquire) == done) wait_while(jobs_, done);
    if (ends_) return;
    work(thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_all();
  }
}

}  // namespace astra::packet
