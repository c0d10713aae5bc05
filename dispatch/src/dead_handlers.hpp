#pragma once

#include <string_view>
#include <vector>

#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/log.hpp"
#include "oncebox/message.hpp"
#include "oncebox/topic_pattern.hpp"

namespace oncebox::dispatcher {

/// Who hears of the dead, by topic. Safe from any thread.
class DeadHandlers {
 public:
  DeadHandlers(const Handlers& handlers, Logger& logger);

  /// Of a message whose death is recorded.
  void tell(const ClaimedMessage& claimed, std::string_view error,
            std::string_view store) const noexcept;

 private:
  std::vector<TopicPattern> patterns_;
  std::vector<DeadHandler> handlers_;  // one for each pattern
  Logger& logger_;
};

}  // namespace oncebox::dispatcher
