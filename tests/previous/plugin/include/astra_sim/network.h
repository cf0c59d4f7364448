/* The network function table: how a compiled network backend and an engine speak to each other.
 *
 * A backend fills an `astra_network` and hands it over in a Python capsule whose name is ASTRA_NETWORK_CAPSULE and whose destructor
 * frees the backend's state. An engine that gets the capsule calls the functions, from one thread at a time, without the interpreter
 * lock; so they may not touch Python. (A function that works for long should now and then take the lock and ask PyErr_CheckSignals; if that
 * fails, it lets go of the lock and returns an error, and the exception goes out.) A table serves one run: its state begins empty, at time
 * 0.
 *
 * No function may let a C++ exception out. The compiled engine makes an error of one; the Python engine calls the functions through
 * ctypes, where an exception ends the program.
 *
 * Times are whole picoseconds from the start of the run, sizes are bytes. Messages carry numbers that the engine gives them, ascending.
 */
#ifndef ASTRA_SIM_NETWORK_H
#define ASTRA_SIM_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASTRA_NETWORK_VERSION 1
#define ASTRA_NETWORK_CAPSULE "astra_sim.network.v1"
/* A time that never comes. */
#define ASTRA_NEVER INT64_MAX

typedef struct astra_message {
  uint64_t number;
  int64_t bytes;
  int32_t source;
  int32_t destination;
  /* The queue of the system layer that sends it, counted over all queues of an NPU; -1 where there is none. */
  int32_t queue;
  int32_t reserved;
} astra_message;

typedef struct astra_statistic {
  const char* name;
  double value;
} astra_statistic;

typedef struct astra_network {
  /* ASTRA_NETWORK_VERSION and sizeof(astra_network) of the header that the backend was compiled with. Later versions of the
   * table append functions; an engine refuses a version it does not know. */
  uint32_t version;
  uint32_t size;
  /* The first argument of every function. */
  void* state;

  /* For a network without contention, which needs no other function: picoseconds from sending a message to its arrival, or a negative
   * number for an error. NULL where messages may wait for each other: then `inject`, `advance` and `next_event` must be there. */
  int64_t (*delay)(void* state, int32_t source, int32_t destination, int64_t bytes);

  /* Take `count` messages that are sent at `time`. Calls come in order of time, and never before a time at which something was
   * delivered. Returns 0; any other number is an error. */
  int (*inject)(void* state, int64_t time, const astra_message* messages, size_t count);

  /* Go on to the next instant at which messages arrive, if that is not after `until` (ASTRA_NEVER: no limit). Sets `time` and
   * `numbers`, an array of `count` numbers that stays valid until the next call; `count` is 0 where nothing arrives by
   * `until`, and with no limit that means that no message is under way. Where it is not, `numbers` is not NULL. Returns 0; any other
   * number is an error. */
  int (*advance)(void* state, int64_t until, int64_t* time, const uint64_t** numbers, size_t* count);

  /* A time before which nothing arrives unless more is injected; ASTRA_NEVER where nothing is under way. */
  int64_t (*next_event)(void* state);

  /* Figures of the run so far; returns how many, and sets `figures` to an array that stays valid until the next call. Each has a name of
   * its own, in UTF-8; one without is left out of the result, with a warning. NULL where there are no figures. */
  size_t (*statistics)(void* state, const astra_statistic** figures);

  /* What went wrong in the call that returned an error, in words, in UTF-8. NULL, or answering NULL, where there is nothing to say. */
  const char* (*error)(void* state);
} astra_network;

#ifdef __cplusplus
}
#endif

#endif
