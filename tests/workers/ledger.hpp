#pragma once

#include <cstdint>
#include <ios>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/message.hpp"

namespace oncebox::workers {

/// Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
using Instant = std::int64_t;
[[nodiscard]] Instant instant_now();

/// What a worker process has done or has been told, in the order in which it happened.
enum class EventKind {
  offered,    ///< a message is about to be enqueued
  answered,   ///< `word` is the outcome of the enqueue
  refused,    ///< `word` is the code of the error
  claimed,    ///< the store handed the message out for `lease`, until `locked_until`
  unclaimed,  ///< `word` is the code of the error by which a claim failed
  extended,   ///< the store prolonged the lease, until `locked_until`
  settling,   ///< the store is about to be told `word`, a verdict
  settled,    ///< `word` is the outcome of the settlement, or the code of the error
  begun,      ///< a handler begins
  ended,      ///< the handler has done its work, and nobody was told yet
  noted,      ///< `word` is what happened
};

struct Event {
  EventKind kind = EventKind::noted;
  std::string id = "-";  ///< of the message
  std::string word = "-";
  std::uint64_t delivery = 0;
  TimePoint locked_until{};  ///< by the store's clock
  Duration lease{};
  int deliveries = 0;  ///< of the message so far, with this one
  int attempt = 0;
  Instant at = 0;
};

/// Writes events to a file that outlives the process. A line is in the kernel's hands when `add`
/// returns, so that no SIGKILL can take it back. Safe to use from any thread.
class Ledger {
 public:
  explicit Ledger(const std::string& path);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Stamps the event. Aborts the process when it cannot be written: a ledger with gaps proves
  /// nothing.
  void add(Event event);

 private:
  int file_;
};

/// Reads the ledger of a process, which may still write to it. A line that is not whole yet, or
/// that a SIGKILL has cut off, is left out: what it would have told had not happened yet.
class LedgerReader {
 public:
  /// There need not be a file yet.
  explicit LedgerReader(std::string path) : path_(std::move(path)) {}

  /// All events until now.
  [[nodiscard]] const std::vector<Event>& read();

 private:
  std::string path_;
  std::streamoff read_until_ = 0;
  std::vector<Event> events_;
};

[[nodiscard]] std::vector<Event> read_ledger(const std::string& path);

}  // namespace oncebox::workers
