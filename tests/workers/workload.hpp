#pragma once

#include <string>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/message.hpp"

/// What the worker processes are given to do. Everything follows from a message's id, so that the
/// parent knows what must have become of it, and a second offer of an id brings the same content.
namespace oncebox::workers {

/// How a message is handled. Its topic says so.
enum class Plan {
  succeeds,
  succeeds_slowly,   ///< its lease must be extended
  stumbles,          ///< fails once
  fails,             ///< fails until it is dead
  fails_for_good,    ///< throws PermanentFailure
  kills_its_worker,  ///< only where a test asks for it
};

inline constexpr int kMaxAttempts = 3;
inline constexpr int kMaxDeliveries = 2 * kMaxAttempts;
inline constexpr std::size_t kBatchSize = 20;

[[nodiscard]] MessageKey key_of(const std::string& id);
[[nodiscard]] Plan plan_of(const Topic& topic);
[[nodiscard]] Topic topic_of(Plan plan);

/// The message of this id. Ids that begin with "ordered" share a partition up to their last '-'.
[[nodiscard]] Message message_of(const std::string& id, TimePoint now);

/// To be called before anybody works on the store.
void limit_deliveries(Store& store);
[[nodiscard]] DispatcherOptions dispatcher_options(Duration lease);

}  // namespace oncebox::workers
