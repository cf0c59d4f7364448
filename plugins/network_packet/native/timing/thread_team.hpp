// Threads that work on one network together: each of them does its part of a job, and all wait for the last.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace astra::packet {

class ThreadTeam {
 public:
  // With a number of threads. Thread 0 is the one that calls `run`; the others wait for jobs until the team ends. Throws std::system_error
  // where the system gives no more.
  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  // Calls job(thread) for each thread at the same time, and returns when all have come back. Throws the exception of one of them.
  template <class Job>
  void run(Job job) {
    call_ = [](void* of, int thread) { (*static_cast<Job*>(of))(thread); };
    job_ = &job;
    start();
    work(0);
    finish();
  }

 private:
  void start();
  void finish();
  // Does a thread's part; keeps its exception.
  void work(int thread) noexcept;
  void wait_for_jobs(int thread);
  void end();

  void (*call_)(void* job, int thread) = nullptr;
  void* job_ = nullptr;
  std::atomic<std::uint32_t> jobs_{0};  // begun so far
  std::atomic<int> busy_{0};            // threads that have not come back
  std::atomic<bool> ends_{false};
  std::mutex guard_;  // of the exception
  std::exception_ptr thrown_;
  std::vector<std::thread> threads_;
  long process_;  // that made the team
};

}  // namespace astra::packet
