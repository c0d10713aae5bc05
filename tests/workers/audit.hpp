#pragma once

#include <optional>
#include <vector>

#include "ledger.hpp"
#include "oncebox/store.hpp"

namespace oncebox::workers {

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
void audit(Store& store, const std::vector<WorkerRun>& runs, Expect expect);

}  // namespace oncebox::workers
