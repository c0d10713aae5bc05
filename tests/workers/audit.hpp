#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ledger.hpp"

namespace oncebox::crash {

/// One worker process: what it wrote down, and when it was killed.
struct WorkerRun {
  std::vector<Event> events;
  std::optional<Instant> killed_at = {};  ///< it was alive then; nothing: it ended by itself
};

enum class Expect {
  unfinished_work,   ///< what was accepted is done, dead or still due
  everything_ended,  ///< what was accepted is done or dead
};

/// Compares what the processes wrote down with what is in the store, and adds a test failure for
/// everything that does not fit.
void audit(const std::string& database, const std::vector<WorkerRun>& runs, Expect expect);

/// The file is sound and its tables agree with each other.
void expect_sound(const std::string& database);

}  // namespace oncebox::crash
