#pragma once

#include <cstddef>
#include <string>

#include "oncebox/dead_group.hpp"

namespace oncebox {

/// A group of dead messages has appeared, or has grown past a threshold. Never has a payload.
struct DeadNotice {
  std::string store;
  std::string queue;  ///< "inbox" or "outbox"
  DeadGroup group;    ///< counts deaths that were seen, also of messages that were revived since
  std::size_t threshold = 1;
  /// In the last one of a look: further groups of this queue that are not told one by one.
  std::size_t more_groups = 0;
};

}  // namespace oncebox
